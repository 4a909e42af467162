// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/binomial.hpp>
#include <tutti/schedule/bruck.hpp>
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/schedule/dissemination.hpp>
#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/naive.hpp>
#include <tutti/schedule/recursive_doubling.hpp>
#include <tutti/schedule/recursive_multiplying.hpp>
#include <tutti/schedule/reduce_scatter_gather.hpp>
#include <tutti/schedule/segments.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace tutti {

/// The algorithm is chosen by cost: from the schedule's counted rounds, messages and bytes and the transport's
/// parameters. Every rank chooses the same. Only algorithms that keep rank order are considered for operations not
/// known to commute.
struct automatic {
  static constexpr std::string_view name = "automatic";
};

namespace detail {

template <class... A>
struct algorithm_list {};

/// What `automatic` chooses from.
template <collective C>
struct candidates;
template <>
struct candidates<collective::broadcast> : algorithm_list<flat> {};
template <>
struct candidates<collective::scatter> : algorithm_list<flat> {};
template <>
struct candidates<collective::gather> : algorithm_list<flat> {};
template <>
struct candidates<collective::reduce> : algorithm_list<flat, binomial, reduce_scatter_gather> {};
template <>
struct candidates<collective::reduce_scatter> : algorithm_list<flat, circulant> {};
template <>
struct candidates<collective::allgather> : algorithm_list<flat, bruck> {};
template <>
struct candidates<collective::allreduce> : algorithm_list<naive, recursive_multiplying<4>, flat> {};
template <>
struct candidates<collective::alltoall> : algorithm_list<flat, bruck> {};
template <>
struct candidates<collective::barrier> : algorithm_list<flat, dissemination> {};
template <>
struct candidates<collective::scan> : algorithm_list<recursive_doubling> {};
template <>
struct candidates<collective::exscan> : algorithm_list<recursive_doubling> {};

struct scratch_scope {
  arena& scratch;
  ~scratch_scope() { scratch.reset(); }
};

/// `fixed + each * bytes` seconds: a rank waits for each round, handles the messages that arrive at it one after the
/// other, and reads and folds their bytes.
template <class Affine, class S>
[[gnu::noinline]] Affine predict(int size, const cost_parameters& parameters) {
  const S schedule{};
  const schedule_cost c = count(schedule, size);
  const double blocks = schedule.blocks(size);
  return {
      c.rounds * (parameters.round + c.fan_in * parameters.message),
      (static_cast<double>(c.received) * parameters.byte + static_cast<double>(c.folds) * parameters.fold) / blocks};
}

template <collective C, class A, bool Commutes>
constexpr bool eligible() {
  return Commutes || schedule_for<C, A>::rank_ordered;
}

/// The first candidate, the one for the smallest messages, becomes part of the verb; the others get functions of their
/// own, or one large one would take several times as long to compile.
template <class Candidate, class First, class... Rest>
inline constexpr bool is_first = std::is_same_v<Candidate, First>;
template <class Candidate, class F>
[[gnu::noinline]] void call_apart(F& f) {
  f.template operator()<Candidate>();
}

/// Calls `f.template operator()<A>()` with the cheapest candidate A.
template <collective C, bool Commutes, class... A, class Comm, class F>
TUTTI_ALWAYS_INLINE inline void choose_cheapest(algorithm_list<A...>, Comm& comm, std::size_t bytes, F& f) {
  if constexpr (sizeof...(A) == 1) {
    (f.template operator()<A>(), ...);
  } else {
    using affine = typename Comm::affine_cost;
    static_assert(sizeof...(A) <= Comm::max_candidates);
    auto& table = comm.costs(static_cast<std::size_t>(C));
    if (!table.counted) [[unlikely]] {
      std::size_t i = 0;
      ((table.candidates[i++] = predict<affine, schedule_for<C, A>>(comm.size(), comm.transport().costs())), ...);
      table.counted = true;
    }
    int best = -1;
    double least = 0;
    int i = 0;
    const auto consider = [&](bool possible) {
      const affine& cost = table.candidates[static_cast<std::size_t>(i)];
      const double time = cost.fixed + cost.each * static_cast<double>(bytes);
      if (possible && (best < 0 || time < least)) {
        best = i;
        least = time;
      }
      ++i;
    };
    (consider(eligible<C, A, Commutes>()), ...);
    i = 0;
    const auto call_if_best = [&]<class Candidate>() TUTTI_ALWAYS_INLINE {
      if constexpr (eligible<C, Candidate, Commutes>()) {
        if (i == best) {
          if constexpr (is_first<Candidate, A...>) {
            f.template operator()<Candidate>();
          } else {
            call_apart<Candidate>(f);
          }
        }
      }
      ++i;
    };
    (call_if_best.template operator()<A>(), ...);
  }
}

/// Calls `f.template operator()<A>()` with the algorithm that the caller named or, for `automatic`, the cheapest one,
/// and gives back the scratch memory afterwards.
template <collective C, class Algorithm, bool Commutes, class Comm, class F>
TUTTI_ALWAYS_INLINE inline void choose(Comm& comm, std::size_t bytes, F&& f) {
  const scratch_scope scope{comm.scratch()};
  if constexpr (!std::is_same_v<Algorithm, automatic>) {
    require_algorithm<Algorithm, C>();
    if constexpr (implements<Algorithm, C>) {
      check_supported<Algorithm>(comm.place(), C);
      f.template operator()<Algorithm>();
    }
  } else {
    choose_cheapest<C, Commutes>(candidates<C>{}, comm, bytes, f);
  }
}

/// The schedule of a call: with its root, and as many segments as its bytes are moved soonest in, the same on every
/// rank.
template <class S, class Comm>
TUTTI_ALWAYS_INLINE inline S schedule_of_call(Comm& comm, int root, std::size_t count, std::size_t bytes) {
  if constexpr (segmented<S>) {
    constexpr std::size_t most = 1 << 20;
    const cost_parameters costs = comm.transport().costs();
    const int segments =
        best_segments<S>(comm.size(), static_cast<double>(bytes), costs.round + costs.message, costs.byte + costs.fold,
                         static_cast<int>(count < 1 ? 1 : count < most ? count : most));
    return make_schedule<S>(root, segments);
  } else {
    return make_schedule<S>(root);
  }
}

}  // namespace detail

}  // namespace tutti
