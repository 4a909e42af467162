// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/template_name.hpp>
#include <tutti/schedule/two_level_allreduce.hpp>
#include <tutti/schedule/two_level_alltoall.hpp>
#include <tutti/schedule/two_level_barrier.hpp>
#include <tutti/schedule/two_level_blocks.hpp>
#include <tutti/schedule/two_level_rooted.hpp>

namespace tutti {

/// Two levels: `Inner` among the ranks of each host, `Outer` between hosts, wherever the ranks stand. Any two
/// algorithms that do the collective on their level, of one vector; where the place does not tell hosts all ranks are
/// on one. H hosts, p ranks, n bytes; with an `Outer` that is best in bytes, such as `circulant` for what folds and
/// `flat` for what does not, as few bytes as can be cross from host to host:
///
/// - broadcast, reduce: n to, or from, every host but the root's;
/// - scatter, gather: the blocks of its ranks to, or from, every host but the root's;
/// - reduce_scatter: each host of m ranks sends n(p-m)/p; allgather: it receives as much;
/// - allreduce: each host sends 2n(H-1)/H;
/// - alltoall: each host of m ranks sends n m(p-m)/p.
///
/// Where hosts have equally many ranks, all of a host's take their share (the product of both routes, see `product`);
/// elsewhere one rank of each host talks for it (but in an alltoall). Reductions keep rank order where each host's
/// ranks are neighbours and both parts keep it, which only a place tells: see `rank_ordered`. Rounds: those of `Inner`,
/// once or twice, and of `Outer`.
template <class Inner = flat, class Outer = circulant>
struct two_level {
  static constexpr std::string_view name = detail::template_name<"two_level", Inner, Outer>;

  static constexpr bool supports(place at) {
    const detail::on_hosts here(at);
    for (int i = 0; i < here.different_sizes(); ++i) {
      if (!tutti::supports<Inner>(here.size(i))) return false;
    }
    return tutti::supports<Outer>(here.hosts());
  }
  static constexpr bool supports(int size) { return supports(place{0, size}); }
};

namespace detail {

/// Whether an algorithm is, or a schedule is of, two levels.
template <class>
inline constexpr bool is_two_level = false;
template <class Inner, class Outer>
inline constexpr bool is_two_level<two_level<Inner, Outer>> = true;
template <collective C, class Inner, class Outer>
inline constexpr bool is_two_level<two_level_rooted<C, Inner, Outer>> = true;
template <class Inner, class Outer>
inline constexpr bool is_two_level<two_level_allreduce<Inner, Outer>> = true;

/// Does all of these on one vector.
template <class A, collective... C>
concept does_on_level = (implements<A, C> && ...) && ((vectors<schedule_for<C, A>> == 1) && ...);

#define TUTTI_DETAIL_TWO_LEVEL_ROOTED(verb)                                                 \
  template <class Inner, class Outer>                                                       \
  requires does_on_level<Inner, collective::verb> && does_on_level<Outer, collective::verb> \
  struct chosen_schedule<collective::verb, two_level<Inner, Outer>> {                       \
    using type = two_level_rooted<collective::verb, Inner, Outer>;                          \
  };
TUTTI_DETAIL_TWO_LEVEL_ROOTED(broadcast)
TUTTI_DETAIL_TWO_LEVEL_ROOTED(scatter)
TUTTI_DETAIL_TWO_LEVEL_ROOTED(gather)
TUTTI_DETAIL_TWO_LEVEL_ROOTED(reduce)
#undef TUTTI_DETAIL_TWO_LEVEL_ROOTED

template <class Inner, class Outer>
requires does_on_level<Inner, collective::reduce_scatter, collective::reduce, collective::scatter> &&
    does_on_level<Outer, collective::reduce_scatter>
struct chosen_schedule<collective::reduce_scatter, two_level<Inner, Outer>> {
  using type = two_level_blocks<collective::reduce_scatter, Inner, Outer>;
};
template <class Inner, class Outer>
requires does_on_level<Inner, collective::allgather, collective::gather, collective::broadcast> &&
    does_on_level<Outer, collective::allgather>
struct chosen_schedule<collective::allgather, two_level<Inner, Outer>> {
  using type = two_level_blocks<collective::allgather, Inner, Outer>;
};
template <class Inner, class Outer>
requires does_on_level<Inner, collective::reduce, collective::broadcast> && does_on_level<Outer, collective::allreduce>
struct chosen_schedule<collective::allreduce, two_level<Inner, Outer>> {
  using type = two_level_allreduce<Inner, Outer>;
};
template <class Inner, class Outer>
requires does_on_level<Inner, collective::alltoall> && does_on_level<Outer, collective::alltoall>
struct chosen_schedule<collective::alltoall, two_level<Inner, Outer>> {
  using type = two_level_alltoall<Inner, Outer>;
};
template <class Inner, class Outer>
requires does_on_level<Inner, collective::barrier, collective::broadcast> && does_on_level<Outer, collective::barrier>
struct chosen_schedule<collective::barrier, two_level<Inner, Outer>> {
  using type = two_level_barrier<Inner, Outer>;
};

}  // namespace detail

}  // namespace tutti
