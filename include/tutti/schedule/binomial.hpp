// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/then.hpp>

#include <algorithm>

namespace tutti {

/// Binomial trees over aligned groups of ranks, q = ceil(log2 p) rounds for any root. Neighbouring groups of 2^k ranks
/// meet in one edge between their leaders; a group's leader is the root if it is a member, else its lowest rank. Groups
/// are never rotated, so reduce keeps rank order and gives the same bits for every root, and block sets are contiguous.
/// Reduce and broadcast: the root handles up to q n bytes; allreduce does both. Gather and scatter: n(p-1)/p.
struct binomial {
  static constexpr std::string_view name = "binomial";

  /// The one edge that level k gives a rank: from the leader of the group `[begin, end)` up to that of its neighbour.
  struct edge {
    int child;
    int parent;
    int begin;
    int end;

    /// `begin == end` if the level has no edge at that place.
    static constexpr edge of(place at, int root, int k) {
      const int low = at.rank & ~((2 << k) - 1);
      const int middle = low + (1 << k);
      if (middle >= at.size) return {0, 0, 0, 0};
      const int high = std::min(middle + (1 << k), at.size);
      const bool root_above = root >= middle && root < high;
      const int lower = root >= low && root < middle ? root : low;
      const int upper = root_above ? root : middle;
      if (at.rank != lower && at.rank != upper) return {0, 0, 0, 0};
      return root_above ? edge{lower, upper, low, middle} : edge{upper, lower, middle, high};
    }
    constexpr explicit operator bool() const { return begin != end; }
  };

  static constexpr int levels(int size) { return detail::ceil_log2(size); }

  struct reduce {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr bool whole_vector = true;
    static constexpr bool canonical(int) { return true; }

    int root;

    constexpr int rounds(place at) const { return levels(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const edge e = edge::of(at, root, k);
      if (!e) return;
      if (at.rank == e.child) {
        emit(send{e.parent, one_block(0)});
      } else {
        emit(combine{e.child, one_block(0), e.begin < e.parent ? side::left : side::right});
      }
    }
  };
  using broadcast = dual<reduce>;

  struct gather {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;

    int root;

    constexpr int rounds(place at) const { return levels(at.size); }
    constexpr int blocks(int size) const { return size; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const edge e = edge::of(at, root, k);
      if (!e) return;
      const block_set group{e.begin, 1, e.end - e.begin};
      if (at.rank == e.child) {
        emit(send{e.parent, group});
      } else {
        emit(recv{e.child, group});
      }
    }
  };
  using scatter = dual<gather>;

  /// The lecture's tree: reduce up, broadcast down. 2q rounds; keeps rank order.
  using allreduce = then<rooted_at<reduce, 0>, rooted_at<broadcast, 0>>;
};

}  // namespace tutti
