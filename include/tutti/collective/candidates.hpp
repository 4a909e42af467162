// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/binomial.hpp>
#include <tutti/schedule/bruck.hpp>
#include <tutti/schedule/canonical_halving.hpp>
#include <tutti/schedule/chain.hpp>
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/circulant_pipelined.hpp>
#include <tutti/schedule/dissemination.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/halving_doubling.hpp>
#include <tutti/schedule/naive.hpp>
#include <tutti/schedule/recursive_doubling.hpp>
#include <tutti/schedule/reduce_scatter_gather.hpp>
#include <tutti/schedule/two_level.hpp>

#include <string_view>

namespace tutti {

/// The algorithm is chosen by cost: from the schedule's counted rounds, messages and bytes and the transport's
/// parameters. Every rank chooses the same. Only algorithms that keep rank order are considered for operations not
/// known to commute.
struct automatic {
  static constexpr std::string_view name = "automatic";
};

/// The algorithm is chosen by cost among those that fold along the canonical tree: the result of a reduction is bitwise
/// the same whatever the length of the vector, the algorithm among them and the transport.
struct ordered {
  static constexpr std::string_view name = "ordered";
};

namespace detail {

template <class... A>
struct algorithm_list {};

/// What `automatic` and `ordered` choose from, the one for the smallest messages first. `Shared`: where ranks read what
/// others have published in memory that they share, all else is rarely worth it.
template <class Choice, collective C, bool Shared>
struct candidates;

template <>
struct candidates<automatic, collective::broadcast, true> : algorithm_list<flat> {};
template <>
struct candidates<automatic, collective::scatter, true> : algorithm_list<flat> {};
template <>
struct candidates<automatic, collective::gather, true> : algorithm_list<flat> {};
template <>
struct candidates<automatic, collective::reduce, true> : algorithm_list<flat, binomial, reduce_scatter_gather> {};
template <>
struct candidates<automatic, collective::reduce_scatter, true> : algorithm_list<flat, circulant> {};
template <>
struct candidates<automatic, collective::allgather, true> : algorithm_list<flat, bruck> {};
template <>
struct candidates<automatic, collective::allreduce, true> : algorithm_list<naive, flat> {};
template <>
struct candidates<automatic, collective::alltoall, true> : algorithm_list<flat, bruck> {};
template <>
struct candidates<automatic, collective::barrier, true> : algorithm_list<flat, dissemination> {};

template <>
struct candidates<automatic, collective::broadcast, false> : algorithm_list<binomial, circulant_pipelined> {};
template <>
struct candidates<automatic, collective::scatter, false> : algorithm_list<binomial, flat> {};
template <>
struct candidates<automatic, collective::gather, false> : algorithm_list<binomial, flat> {};
template <>
struct candidates<automatic, collective::reduce, false> : algorithm_list<binomial, circulant_pipelined> {};
template <>
struct candidates<automatic, collective::reduce_scatter, false> : algorithm_list<circulant, flat> {};
template <>
struct candidates<automatic, collective::allgather, false> : algorithm_list<bruck, flat> {};
template <>
struct candidates<automatic, collective::allreduce, false>
    : algorithm_list<recursive_doubling, circulant, halving_doubling> {};
template <>
struct candidates<automatic, collective::alltoall, false> : algorithm_list<bruck, flat> {};
template <>
struct candidates<automatic, collective::barrier, false> : algorithm_list<dissemination> {};

template <bool Shared>
struct candidates<automatic, collective::scan, Shared> : algorithm_list<recursive_doubling, chain> {};
template <bool Shared>
struct candidates<automatic, collective::exscan, Shared> : algorithm_list<recursive_doubling, chain> {};

// What folds nothing has no order to keep.
template <collective C, bool Shared>
struct candidates<ordered, C, Shared> : candidates<automatic, C, Shared> {};
template <bool Shared>
struct candidates<ordered, collective::reduce, Shared> : algorithm_list<binomial> {};
template <bool Shared>
struct candidates<ordered, collective::reduce_scatter, Shared> : algorithm_list<canonical_halving> {};
template <bool Shared>
struct candidates<ordered, collective::allreduce, Shared>
    : algorithm_list<recursive_doubling, binomial, canonical_halving> {};
// Prefixes have no canonical tree, but one way to be folded at every length.
template <bool Shared>
struct candidates<ordered, collective::scan, Shared> : algorithm_list<recursive_doubling> {};
template <bool Shared>
struct candidates<ordered, collective::exscan, Shared> : algorithm_list<recursive_doubling> {};

/// What they choose from besides where some ranks share a host and others do not.
template <class Choice, collective C>
struct candidates_of_two_levels;

template <>
struct candidates_of_two_levels<automatic, collective::broadcast>
    : algorithm_list<two_level<flat, circulant>, two_level<flat, circulant_pipelined>> {};
template <>
struct candidates_of_two_levels<automatic, collective::scatter> : algorithm_list<two_level<flat, flat>> {};
template <>
struct candidates_of_two_levels<automatic, collective::gather> : algorithm_list<two_level<flat, flat>> {};
template <>
struct candidates_of_two_levels<automatic, collective::reduce>
    : algorithm_list<two_level<flat, circulant>, two_level<reduce_scatter_gather, circulant>,
                     two_level<flat, circulant_pipelined>> {};
template <>
struct candidates_of_two_levels<automatic, collective::reduce_scatter> : algorithm_list<two_level<flat, circulant>> {};
template <>
struct candidates_of_two_levels<automatic, collective::allgather> : algorithm_list<two_level<flat, circulant>> {};
template <>
struct candidates_of_two_levels<automatic, collective::allreduce>
    : algorithm_list<two_level<flat, recursive_doubling>, two_level<flat, circulant>> {};
template <>
struct candidates_of_two_levels<automatic, collective::alltoall>
    : algorithm_list<two_level<flat, bruck>, two_level<flat, flat>> {};
template <>
struct candidates_of_two_levels<automatic, collective::barrier> : algorithm_list<two_level<flat, dissemination>> {};
template <>
struct candidates_of_two_levels<automatic, collective::scan> : algorithm_list<> {};
template <>
struct candidates_of_two_levels<automatic, collective::exscan> : algorithm_list<> {};

template <collective C>
struct candidates_of_two_levels<ordered, C> : candidates_of_two_levels<automatic, C> {};
template <>
struct candidates_of_two_levels<ordered, collective::reduce> : algorithm_list<> {};
template <>
struct candidates_of_two_levels<ordered, collective::reduce_scatter> : algorithm_list<> {};
template <>
struct candidates_of_two_levels<ordered, collective::allreduce> : algorithm_list<> {};

}  // namespace detail
}  // namespace tutti
