// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/template_name.hpp>
#include <tutti/schedule/then.hpp>

#include <algorithm>
#include <string_view>

namespace tutti {

/// k-nomial trees over aligned groups of ranks, ceil(log_k p) rounds for any k >= 2, any p and any root. In round i k
/// neighbouring groups of k^i ranks meet: the leader of one talks to those of the others. A group's leader is the root
/// if it is a member, else its lowest rank. Groups are never rotated, so reduce keeps rank order and gives the same
/// bits for every root, and block sets are contiguous. Reduce and broadcast: the root handles up to k-1 messages in a
/// round and (k-1) ceil(log_k p) n bytes; allreduce does both. Gather and scatter: n(p-1)/p. For short vectors, with a
/// larger k where messages to several peers overlap.
template <int Radix>
struct k_nomial {
  static_assert(Radix >= 2, "the radix is at least 2");
  static constexpr std::string_view name = detail::template_name<"k_nomial", detail::numeral<Radix>>;

 private:
  static constexpr bool shifts = detail::is_power_of_two(Radix);

  /// The number of ranks in a group of level k.
  static constexpr long long width(int k) {
    if constexpr (shifts) {
      return 1LL << (k * detail::floor_log2(Radix));
    } else {
      long long ranks = 1;
      while (k-- > 0) ranks *= Radix;
      return ranks;
    }
  }
  static constexpr int levels(int size) {
    if constexpr (shifts) {
      constexpr int bits = detail::floor_log2(Radix);
      return (detail::ceil_log2(size) + bits - 1) / bits;
    } else {
      int k = 0;
      for (long long ranks = 1; ranks < size; ranks *= Radix) ++k;
      return k;
    }
  }
  /// The first rank of the group of `ranks` that `rank` is in.
  static constexpr int begin_of(int rank, long long ranks) {
    if constexpr (shifts) {
      return static_cast<int>(rank & ~(ranks - 1));
    } else {
      return static_cast<int>(rank - rank % ranks);
    }
  }

  /// What level k does at a place: `to_parent(parent, end)` if that leads the group `[at.rank, end)`, a child; if it is
  /// the parent, `from_child(child, end)` with each child's group `[child, end)`, in rank order.
  template <class ToParent, class FromChild>
  static constexpr void level(place at, int root, int k, ToParent to_parent, FromChild from_child) {
    const long long ranks = width(k);
    const int begin = begin_of(at.rank, ranks);
    const bool has_root = root >= begin && root - begin < ranks;
    if (at.rank != (has_root ? root : begin)) return;
    const long long wide = ranks * Radix;
    const int first = begin_of(at.rank, wide);
    const int parent = root >= first && root - first < wide ? root : first;
    const auto end_of = [&](long long group) { return static_cast<int>(std::min<long long>(group + ranks, at.size)); };
    if (at.rank != parent) return to_parent(parent, end_of(begin));
    long long child = first;
    for (int i = 0; i < Radix && child < at.size; ++i, child += ranks) {
      if (child != begin) from_child(static_cast<int>(child), end_of(child));
    }
  }

 public:
  struct reduce {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr bool whole_vector = true;
    static constexpr bool canonical(int size) { return Radix == 2 || size <= 3; }

    int root;

    constexpr int rounds(place at) const { return levels(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      level(
          at, root, k,
          [&](int parent, int) {
            emit(send_to{parent, one_block(0)});
          },
          [&](int child, int) {
            emit(combine{child, one_block(0), child < at.rank ? side::left : side::right});
          });
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
      level(
          at, root, k,
          [&](int parent, int end) {
            emit(send_to{parent, {at.rank, 1, end - at.rank}});
          },
          [&](int child, int end) {
            emit(recv_from{child, {child, 1, end - child}});
          });
    }
  };
  using scatter = dual<gather>;

  /// The lecture's tree: reduce up, broadcast down. Twice the rounds; keeps rank order.
  using allreduce = then<rooted_at<reduce, 0>, rooted_at<broadcast, 0>>;
};

}  // namespace tutti
