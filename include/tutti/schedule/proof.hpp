// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>
#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/symbolic_run.hpp>

#include <utility>

namespace tutti {

namespace detail {

/// The numbers of segments that `proved_schedule` tries: with one, with fewer and with more than there are trees.
template <class S>
inline constexpr int most_proved_segments = segmented<S> ? 3 : 1;

template <collective C, class S, int Size, int Root>
inline constexpr bool proved_for_root = [] {
  for (int segments = 1; segments <= most_proved_segments<S>; ++segments) {
    if (!symbolic_run<C, S>(make_schedule<S>(Root, segments), Size, Root)()) return false;
  }
  return true;
}();

template <collective C, class S, int Size, int... Root>
constexpr bool proved_for_roots(std::integer_sequence<int, Root...>) {
  return (proved_for_root<C, S, Size, Root> && ...);
}

/// Every root of up to eight ranks; of more the first, the middle and the last.
template <int Size>
constexpr auto roots_to_prove() {
  if constexpr (Size <= 8) {
    return std::make_integer_sequence<int, Size>{};
  } else {
    return std::integer_sequence<int, 0, Size / 2, Size - 1>{};
  }
}

template <collective C, class A, int First, int... I>
constexpr bool proved_for_sizes(std::integer_sequence<int, I...>) {
  using S = schedule_for<C, A>;
  const auto proved_or_foreign = []<int Size>(std::integral_constant<int, Size>) {
    if constexpr (supports<A>(Size)) {
      return proved_for_roots<C, S, Size>(roots_to_prove < rooted<S> ? Size : 1 > ());
    } else {
      return true;
    }
  };
  return (proved_or_foreign(std::integral_constant<int, First + I>{}) && ...);
}

}  // namespace detail

/// Executes `s` symbolically as collective `C` on all of `size` ranks: every contribution exactly once, every send
/// meets a receive of the same blocks, no deadlock, hazards declared, rank order and canonical tree where claimed, one
/// expression on all ranks of an allreduce unless that is denied. Schedules without a root ignore `root`; `hosts` tells
/// which ranks share a host. Cost: about the number of blocks sent, times size / 64.
template <collective C, schedule S>
constexpr verdict verify(const S& s, int size, int root = 0, const host_map* hosts = nullptr) {
  return detail::symbolic_run<C, S>(s, size, root, hosts)();
}

/// `verify` for the schedule `S`, made with `root` if it has one, and with `segments` if it has any.
template <collective C, schedule S>
constexpr verdict correct(int size, int root = 0, int segments = 1) {
  return verify<C>(detail::make_schedule<S>(root, segments), size, root);
}
template <collective C, schedule S>
constexpr verdict correct(const host_map& hosts, int root = 0, int segments = 1) {
  return verify<C>(detail::make_schedule<S>(root, segments), hosts.ranks(), root, &hosts);
}

/// Algorithm `A` does collective `C` correctly for each size in `[First, Last]` that it supports and every root (of
/// more than eight ranks the first, the middle and the last), in one, two and three segments if it has any.
template <collective C, class A, int First, int Last>
requires implements<A, C>
inline constexpr bool proved_schedule =
    detail::proved_for_sizes<C, A, First>(std::make_integer_sequence<int, Last - First + 1>{});

}  // namespace tutti
