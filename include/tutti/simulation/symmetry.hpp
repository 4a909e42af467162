// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/fold.hpp>
#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/naive.hpp>
#include <tutti/schedule/recursive_doubling.hpp>
#include <tutti/schedule/ring.hpp>

namespace tutti {

/// Whether all ranks do the same in schedule `S` among `size` ranks: a group moves each on to any other and its steps
/// with it. If the blocks are even too, then on a network without shared links all ranks do the same at the same time.
/// True only of what is known; specialise it for a schedule of your own.
template <class S>
struct symmetric_schedule {
  static constexpr bool among(int) { return false; }
};

namespace detail {
struct always_symmetric {
  static constexpr bool among(int) { return true; }
};
}  // namespace detail

template <route R>
struct symmetric_schedule<reduce_scatter_of<R>> : detail::always_symmetric {};
template <route R>
struct symmetric_schedule<alltoall_of<R>> : detail::always_symmetric {};
template <>
struct symmetric_schedule<flat::reduce_scatter> : detail::always_symmetric {};
template <>
struct symmetric_schedule<flat::allgather> : detail::always_symmetric {};
template <>
struct symmetric_schedule<flat::alltoall> : detail::always_symmetric {};
template <>
struct symmetric_schedule<naive::allreduce> : detail::always_symmetric {};
template <>
struct symmetric_schedule<recursive_doubling::exchange> : detail::always_symmetric {};

template <class S>
struct symmetric_schedule<dual<S>> : symmetric_schedule<S> {};
template <class A, class B>
struct symmetric_schedule<then<A, B>> {
  static constexpr bool among(int size) {
    return symmetric_schedule<A>::among(size) && symmetric_schedule<B>::among(size);
  }
};
template <class S>
struct symmetric_schedule<folded<S>> {
  static constexpr bool among(int size) { return detail::is_power_of_two(size) && symmetric_schedule<S>::among(size); }
};

/// Whether every message is one block and every block travels in every round of one rank after the other, so that the
/// makespan is that of a vector all of whose blocks are as large as the largest.
template <class S>
inline constexpr bool relays_blocks = false;
template <>
inline constexpr bool relays_blocks<reduce_scatter_of<ring>> = true;
template <>
inline constexpr bool relays_blocks<allgather_of<ring>> = true;
template <>
inline constexpr bool relays_blocks<allreduce_of<ring>> = true;

}  // namespace tutti
