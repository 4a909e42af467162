// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>

#include <concepts>
#include <string_view>

namespace tutti {

namespace detail {

template <collective C, class A>
struct own_schedule {};  // no member `type`: the algorithm does not name a schedule of its own

// One line for each collective, since C++ cannot ask a class for the member that a value names.
#define TUTTI_DETAIL_OWN_SCHEDULE(verb)      \
  template <class A>                         \
  requires requires { typename A::verb; }    \
  struct own_schedule<collective::verb, A> { \
    using type = typename A::verb;           \
  };
TUTTI_DETAIL_OWN_SCHEDULE(broadcast)
TUTTI_DETAIL_OWN_SCHEDULE(scatter)
TUTTI_DETAIL_OWN_SCHEDULE(gather)
TUTTI_DETAIL_OWN_SCHEDULE(reduce)
TUTTI_DETAIL_OWN_SCHEDULE(reduce_scatter)
TUTTI_DETAIL_OWN_SCHEDULE(allgather)
TUTTI_DETAIL_OWN_SCHEDULE(allreduce)
TUTTI_DETAIL_OWN_SCHEDULE(alltoall)
TUTTI_DETAIL_OWN_SCHEDULE(barrier)
TUTTI_DETAIL_OWN_SCHEDULE(scan)
TUTTI_DETAIL_OWN_SCHEDULE(exscan)
#undef TUTTI_DETAIL_OWN_SCHEDULE

template <collective C, class A>
concept has_own_schedule = requires {
  typename own_schedule<C, A>::type;
};

template <collective C, class A>
struct chosen_schedule {};
template <collective C, class A>
requires has_own_schedule<C, A>
struct chosen_schedule<C, A> {
  using type = typename own_schedule<C, A>::type;
};

#define TUTTI_DETAIL_DERIVED_SCHEDULE(verb, ...)                                                 \
  template <route A>                                                                             \
  requires(!has_own_schedule<collective::verb, A>) struct chosen_schedule<collective::verb, A> { \
    using type = __VA_ARGS__;                                                                    \
  };
TUTTI_DETAIL_DERIVED_SCHEDULE(broadcast, broadcast_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(scatter, scatter_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(gather, gather_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(reduce, reduce_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(reduce_scatter, reduce_scatter_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(allgather, allgather_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(allreduce, then<typename chosen_schedule<collective::reduce_scatter, A>::type,
                                              typename chosen_schedule<collective::allgather, A>::type>)
TUTTI_DETAIL_DERIVED_SCHEDULE(alltoall, alltoall_of<A>)
TUTTI_DETAIL_DERIVED_SCHEDULE(barrier, barrier_of<A>)
#undef TUTTI_DETAIL_DERIVED_SCHEDULE

}  // namespace detail

/// The schedule by which algorithm `A` does collective `C`: the member type of `A` with the collective's name if there
/// is one (`A::allreduce`), else the one derived from `A` if that is a route.
template <collective C, class A>
using schedule_for = typename detail::chosen_schedule<C, A>::type;

/// A schedule whose blocks are slots, as all-to-all needs it: slot b of a rank begins with its block for rank
/// `s.destination(at, b)` and ends with the block from rank `s.source(at, b)`.
template <class S>
concept slotted_schedule = schedule<S> && requires(const S& s, place at, int slot) {
  { s.destination(at, slot) } -> std::same_as<int>;
  { s.source(at, slot) } -> std::same_as<int>;
};

/// Algorithm `A` can do collective `C`.
template <class A, collective C>
concept implements = requires {
  typename schedule_for<C, A>;
}
&&schedule<schedule_for<C, A>> && (C != collective::alltoall || slotted_schedule<schedule_for<C, A>>);

/// The algorithm's name as users write it.
template <class A>
constexpr std::string_view name_of() {
  return A::name;
}

}  // namespace tutti
