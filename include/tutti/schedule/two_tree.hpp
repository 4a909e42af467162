// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/in_order_tree.hpp>
#include <tutti/schedule/then.hpp>

#include <algorithm>
#include <string_view>

namespace tutti {

/// Two binary trees, one the mirror image of the other, each of which carries every other one of k segments: a rank
/// that is a leaf in one has children in the other, so all send and receive one segment a round. At most 2q + k - 2
/// rounds, q = ceil(log2 p), and n bytes sent and received per rank, for any p and root; allreduce twice that. For long
/// vectors among many ranks. Source: Sanders, Speck, Traff, Two-tree algorithms for full bandwidth broadcast, reduction
/// and scan, 2009.
///
/// A root feeds both trees, which stand over the other ranks. Reduce keeps rank order among an odd number of ranks if
/// the first or last of them is the root (`rank_ordered_at`). Allreduce always does: among an even number of ranks the
/// trees stand over all of them, and each half of the vector is broadcast from where it was reduced.
struct two_tree {
  static constexpr std::string_view name = "two_tree";

 private:
  /// The trees among `size` ranks, below `root`, or over all ranks if that is -1. Tree 0 is the mirror image: its times
  /// are the earlier ones, and it has the odd segment. Times are those of a broadcast; a reduce goes backwards.
  struct trees {
    int size;
    int root;
    int segments;

    constexpr int rounds() const { return size == 1 ? 0 : tree().last_time() + segments - 1 - (has_root() ? 0 : 1); }
    template <class Emit>
    constexpr void reduce(int rank, int k, Emit&& emit) const {
      const int now = rounds() - 1 - k;
      edges(rank, [&](int peer, int which, int time, bool to_child) {
        const int since = now - time;
        const int block = which + since;
        if (since < 0 || since % 2 != 0 || block >= segments) return;
        if (to_child) {
          emit(combine{peer, one_block(block), peer < rank ? side::left : side::right});
        } else {
          emit(send_to{peer, one_block(block)});
        }
      });
    }
    constexpr int next_round(int rank, int k) const {
      const int now = rounds() - 1 - k;
      int latest = -1;
      edges(rank, [&](int, int which, int time, bool) {
        const int last = time + (segments - 1 - which) / 2 * 2;
        if (which < segments && time <= now) latest = std::max(latest, std::min(last, now - (now - time) % 2));
      });
      return rounds() - 1 - latest;
    }
    constexpr int previous_round(int rank, int k) const {
      const int now = rounds() - 1 - k;
      int earliest = rounds();
      edges(rank, [&](int, int which, int time, bool) {
        const int last = time + (segments - 1 - which) / 2 * 2;
        if (which < segments && now <= last) {
          earliest = std::min(earliest, now <= time ? time : now + (now - time) % 2);
        }
      });
      return rounds() - 1 - earliest;
    }

   private:
    constexpr bool has_root() const { return root >= 0; }
    constexpr detail::in_order_tree tree() const { return {has_root() ? size - 1 : size}; }

    /// `visit(peer, which, time, to_child)` for each edge of a rank in either tree.
    template <class Visit>
    constexpr void edges(int rank, Visit visit) const {
      const detail::in_order_tree tree = this->tree();
      for (int which = 0; which < 2 && size > 1; ++which) {
        const auto visit_position = [&](int i, int time, bool to_child) {
          visit(rank_at(i, which), which, time - (which == 0 ? 1 : 0) - (has_root() ? 0 : 1), to_child);
        };
        if (rank == root) {
          visit_position(tree.root(), tree.time(tree.root()), true);
          continue;
        }
        const int here = position_of(rank, which);
        if (const int parent = tree.parent(here); parent != 0 || has_root()) {
          visit_position(parent, tree.time(here), false);
        }
        for (const int child : {tree.left_child(here), tree.right_child(here)}) {
          if (child != 0) visit_position(child, tree.time(child), true);
        }
      }
    }
    /// Position 0 is the root outside.
    constexpr int rank_at(int position, int which) const {
      if (position == 0) return root;
      const int n = tree().positions & ~1;
      const int index = position > n ? n : which == 0 ? n - position : position - 1;
      const int rank = index - (size - 1 - root);  // the ranks after the root come first
      return !has_root() ? index : rank < 0 ? rank + size : rank;
    }
    constexpr int position_of(int rank, int which) const {
      const int n = tree().positions & ~1;
      const int index = has_root() ? modulo(rank - root - 1, size) : rank;
      return index == n ? n + 1 : which == 0 ? n - index : index + 1;
    }
  };

  /// To the root, or, of an allreduce, in rank order: to rank 0, or each half to the root of its own tree.
  template <bool Ordered>
  struct reduction : detail::parameters<!Ordered, true> {
    static constexpr bool rank_ordered = Ordered;
    static constexpr bool rank_ordered_at(place at) {
      const bool in_order = at.size % 2 == 1 || at.size == 2 || at.size == 4;
      return Ordered || (in_order && (at.rank == 0 || at.rank == at.size - 1));
    }
    static constexpr bool overlapping = false;

    constexpr int rounds(place at) const { return trees_of(at).rounds(); }
    constexpr int blocks(int) const { return this->segments; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      trees_of(at).reduce(at.rank, k, emit);
    }
    constexpr int next_round(place at, int k) const { return trees_of(at).next_round(at.rank, k); }
    constexpr int previous_round(place at, int k) const { return trees_of(at).previous_round(at.rank, k); }

   private:
    constexpr trees trees_of(place at) const {
      if constexpr (Ordered) {
        return {at.size, at.size <= 2 || at.size % 2 == 1 ? 0 : -1, this->segments};
      } else {
        return {at.size, this->root, this->segments};
      }
    }
  };

 public:
  using reduce = reduction<false>;
  using broadcast = dual<reduce>;
  using allreduce = then<reduction<true>, dual<reduction<true>>>;
};

}  // namespace tutti
