// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/proof_buffer.hpp>

#include <bit>
#include <cstdint>

namespace tutti::detail {

/// Symbolic values of a proof. Value r in `[0, size)` is the contribution of rank r; the others are folds of two
/// values, each stored once, so that equal numbers mean equal expressions.
class expressions {
 public:
  constexpr explicit expressions(int size) : size_{size}, words_{(size + 63) / 64}, members_{size * words_} {
    for (int r = 0; r < size; ++r) {
      nodes_.push({r, r, r, r, 1, true});
      members_[r * words_ + r / 64] = std::uint64_t{1} << (r % 64);
    }
  }

  /// Whether some rank contributed to both.
  constexpr bool overlap(int a, int b) const {
    for (int w = 0; w < words_; ++w) {
      if ((members_[a * words_ + w] & members_[b * words_ + w]) != 0) return true;
    }
    return false;
  }

  /// The value `a op b`, or what is known from either if they overlap.
  constexpr int fold(int a, int b) {
    const int known = place_of(a, b);
    if (table_[known] != 0) return table_[known] - 1;
    const int fresh = nodes_.size();
    int count = 0;
    for (int w = 0; w < words_; ++w) {
      members_.push(members_[a * words_ + w] | members_[b * words_ + w]);
      count += std::popcount(members_[fresh * words_ + w]);
    }
    const node &left = nodes_[a], &right = nodes_[b];
    const bool ascending = left.ascending && right.ascending && left.last < right.first;
    nodes_.push({a, b, left.first, right.last, count, ascending});
    table_[known] = fresh + 1;
    if (nodes_.size() * 2 > table_size_) grow();
    return fresh;
  }

  /// The value of the ranks `[first, first + 2^level)`, as far as they exist, folded along the canonical tree.
  constexpr int canonical_tree(int first, int level) {
    if (level == 0) return first;
    const int middle = first + (1 << (level - 1));
    const int lower = canonical_tree(first, level - 1);
    return middle >= size_ ? lower : fold(lower, canonical_tree(middle, level - 1));
  }

  /// The ranks from 0 to `last`, and no others, contributed.
  constexpr bool covers(int a, int last) const {
    if (nodes_[a].count != last + 1) return false;
    for (int w = 0; w < words_; ++w) {
      const int here = last + 1 - 64 * w;  // ranks of this word and the following ones that belong
      const std::uint64_t all = here >= 64 ? ~std::uint64_t{0} : here > 0 ? (std::uint64_t{1} << here) - 1 : 0;
      if (members_[a * words_ + w] != all) return false;
    }
    return true;
  }

  /// The contributions stand in rank order.
  constexpr bool ascending(int a) const { return nodes_[a].ascending; }

 private:
  struct node {
    int left;
    int right;
    int first;
    int last;
    int count;
    bool ascending;
  };

  constexpr int place_of(int a, int b) const {
    int i = static_cast<int>((static_cast<unsigned>(a) * 31u + static_cast<unsigned>(b) * 17u) %
                             static_cast<unsigned>(table_size_));
    while (table_[i] != 0 && (nodes_[table_[i] - 1].left != a || nodes_[table_[i] - 1].right != b)) {
      i = i + 1 == table_size_ ? 0 : i + 1;
    }
    return i;
  }

  constexpr void grow() {
    table_size_ *= 4;
    table_.clear();
    for (int i = 0; i < table_size_; ++i) table_.push(0);
    for (int n = size_; n < nodes_.size(); ++n) table_[place_of(nodes_[n].left, nodes_[n].right)] = n + 1;
  }

  int size_;
  int words_;
  int table_size_ = 61;
  proof_buffer<node> nodes_;
  proof_buffer<std::uint64_t> members_;
  proof_buffer<int> table_{61};  // numbers of folded values plus one, 0 where free
};

}  // namespace tutti::detail
