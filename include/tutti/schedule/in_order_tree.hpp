// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>

#include <algorithm>
#include <bit>

namespace tutti::detail {

/// A binary tree in order over the positions `1..positions`, for pipelines along it and its mirror image together. In
/// the mirror image of an even number n of positions, position i is n + 1 - i, so that a leaf of one tree is no leaf of
/// the other. If the number is odd, the last position is one more leaf below position n in both.
///
/// An edge is in use in every other round from its time on: one segment each. Times are the earliest at which a
/// position, in either tree, sends along one edge and receives along one in a round, so those of the mirror image have
/// the other parity; all are one round earlier than those of the tree. The time of a position is that of the edge
/// from its parent, or from outside into the root, where it is 1. An edge comes one round after the edge above if they
/// differ in parity, else two. Source: Sanders, Speck, Traff 2009, section 3; here every answer is a closed form.
struct in_order_tree {
  int positions;

  constexpr int root() const { return even() == 0 ? 1 : static_cast<int>(std::bit_floor(bits(even()))); }

  /// 0 for the root, as below where a child is missing.
  constexpr int parent(int i) const {
    if (i > even()) return even();
    if (i == root()) return 0;
    const int reach = i & -i;
    return (i & (2 * reach)) != 0 || i + reach > even() ? i - reach : i + reach;
  }
  constexpr int left_child(int i) const { return is_leaf(i) ? 0 : i - (i & -i) / 2; }
  constexpr int right_child(int i) const {
    if (is_leaf(i)) return 0;
    if (i == even()) return positions > even() ? positions : 0;
    return i + std::min((i & -i) / 2, static_cast<int>(std::bit_floor(bits(even() - i))));
  }

  constexpr int time(int i) const {
    if (even() == 0) return 1;
    if (!is_leaf(i)) return inner_time(i);
    const int above = inner_time(parent(i));
    if (i <= even()) return above + ((above ^ inner_time(even() + 1 - i)) % 2 == 0 ? 2 : 1);
    return above + (time(left_child(even())) - above == 2 ? 1 : 2);
  }
  /// The last of all.
  constexpr int last_time() const { return even() == 0 ? 1 : 2 * floor_log2(even()) + even() / 2 % 2; }

 private:
  static constexpr unsigned bits(int i) { return static_cast<unsigned>(i); }
  static constexpr bool is_leaf(int i) { return i % 2 != 0; }
  constexpr int even() const { return positions & ~1; }

  /// From the root on, edges to one side, which depends on n, change parity and the others do not; so how many there
  /// are of each tells the time. The tree consists of a way right, along the powers of two that n is the sum of, with a
  /// full tree to the left of each of its positions.
  constexpr int inner_time(int i) const {
    const int n = even();
    const int differing = i == n ? 0 : floor_log2(i ^ n);
    const int inside = i & ((1 << differing) - 1);  // the position in its full tree; 0 on the way right
    int depth = std::popcount(bits(i)) - 1;
    int rights = depth;
    if (inside != 0) {
      const int before = std::popcount(bits(n >> differing)) - 1;
      depth = before + differing - std::countr_zero(bits(i));
      rights = before + std::popcount(bits(inside)) - 1;
    }
    return 1 + 2 * depth - (n / 2 % 2 == 1 ? rights : depth - rights);
  }
};

}  // namespace tutti::detail
