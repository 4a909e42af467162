// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/candidates.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/schedule/segments.hpp>

#include <cstddef>
#include <type_traits>

namespace tutti {

namespace detail {

struct scratch_scope {
  arena& scratch;
  ~scratch_scope() { scratch.reset(); }
};

/// What a pipeline costs: each round has one message and one segment of bytes.
template <class Predicted, segmented S>
Predicted predict_pipeline(int size, const cost_parameters& parameters) {
  const pipeline p = pipeline_of<S>(size);
  constexpr bool folds_some = folding<S> != folds::nothing;
  return {parameters.round + parameters.message, parameters.byte + (folds_some ? parameters.fold : 0), p.fixed, p.each};
}

/// What the schedule costs: a rank waits for each round, handles the messages that arrive at it one after the other,
/// and reads and folds their bytes; of each round the rank that has most to do counts.
template <class Predicted, class S>
[[gnu::noinline]] Predicted predict(int size, const cost_parameters& parameters) {
  if constexpr (segmented<S>) {
    return predict_pipeline<Predicted, S>(size, parameters);
  } else {
    const S schedule = make_schedule<S>(0);
    const critical_path c = follow(schedule, size);
    const double blocks = schedule.blocks(size);
    return {
        c.rounds * (parameters.round + c.fan_in * parameters.message),
        (static_cast<double>(c.received) * parameters.byte + static_cast<double>(c.folds) * parameters.fold) / blocks,
        0, 0};
  }
}

/// The segments of a call of so many elements.
template <segmented S, class Predicted>
int segments_of(const Predicted& cost, std::size_t count, std::size_t bytes) {
  constexpr std::size_t most = 4096;  // more would cost more to handle than they can save
  return best_segments({cost.rounds, cost.rounds_each}, static_cast<double>(bytes), cost.fixed, cost.each,
                       static_cast<int>(count < 1      ? 1
                                        : count < most ? count
                                                       : most));
}

/// The predicted time of a call in seconds.
template <class S, class Predicted>
TUTTI_ALWAYS_INLINE inline double seconds(const Predicted& cost, std::size_t bytes) {
  const auto n = static_cast<double>(bytes);
  if constexpr (segmented<S>) {
    const int k = segments_of<S>(cost, bytes, bytes);
    return (cost.rounds + cost.rounds_each * k) * (cost.fixed + cost.each * n / k);
  } else {
    return cost.fixed + cost.each * n;
  }
}

/// Where the costs of a choice's candidates are kept.
template <class Choice, collective C>
inline constexpr std::size_t choice_number = static_cast<std::size_t>(C) +
                                             (std::is_same_v<Choice, ordered> ? collective_count : 0);

/// The costs of the candidates, counted the first time.
template <class Choice, collective C, class... A, class Comm>
TUTTI_ALWAYS_INLINE inline const auto& costs_of(algorithm_list<A...>, Comm& comm) {
  using predicted = typename Comm::predicted_cost;
  static_assert(sizeof...(A) <= Comm::max_candidates && 2 * collective_count <= Comm::max_choices);
  auto& table = comm.costs(choice_number<Choice, C>);
  if (!table.counted) [[unlikely]] {
    std::size_t i = 0;
    ((table.candidates[i++] = predict<predicted, schedule_for<C, A>>(comm.size(), comm.transport().costs())), ...);
    table.counted = true;
  }
  return table.candidates;
}

template <collective C, class A, bool Commutes>
constexpr bool eligible() {
  return Commutes || schedule_for<C, A>::rank_ordered;
}

/// Whether the choice may take the candidate among so many ranks.
template <class Choice, collective C, class A>
constexpr bool admits([[maybe_unused]] int size) {
  constexpr bool folds = C == collective::reduce || C == collective::reduce_scatter || C == collective::allreduce;
  if constexpr (std::is_same_v<Choice, ordered> && folds) {
    return canonical<schedule_for<C, A>>(size);
  } else {
    return true;
  }
}

/// The first candidate, the one for the smallest messages, becomes part of the verb; the others get functions of their
/// own, or one large one would take several times as long to compile.
template <class Candidate, class First, class... Rest>
inline constexpr bool is_first = std::is_same_v<Candidate, First>;
template <class Candidate, class F>
[[gnu::noinline]] void call_apart(F& f) {
  f.template operator()<Candidate>();
}

/// The bytes of the vector as algorithm A sends it: a number, or what its schedule makes of it.
template <collective C, class A, class Bytes>
TUTTI_ALWAYS_INLINE constexpr std::size_t bytes_by(const Bytes& bytes) {
  if constexpr (std::is_class_v<Bytes>) {
    return bytes.template by<schedule_for<C, A>>();
  } else {
    return static_cast<std::size_t>(bytes);
  }
}

/// The number of the cheapest candidate that may be taken; of several the first.
template <class Choice, collective C, bool Commutes, class... A, class Comm, class Bytes>
TUTTI_ALWAYS_INLINE inline int cheapest(algorithm_list<A...> all, Comm& comm, Bytes bytes) {
  if constexpr (sizeof...(A) == 1) {
    return 0;
  } else {
    const auto& costs = costs_of<Choice, C>(all, comm);
    int best = -1;
    double least = 0;
    int i = 0;
    const auto consider = [&]<class Candidate>() TUTTI_ALWAYS_INLINE {
      if (eligible<C, Candidate, Commutes>() && admits<Choice, C, Candidate>(comm.size())) {
        const double time = seconds<schedule_for<C, Candidate>>(costs[i], bytes_by<C, Candidate>(bytes));
        if (best < 0 || time < least) {
          best = i;
          least = time;
        }
      }
      ++i;
    };
    (consider.template operator()<A>(), ...);
    return best;
  }
}

/// Calls `f.template operator()<A>()` with the cheapest candidate A.
template <class Choice, collective C, bool Commutes, class... A, class Comm, class Bytes, class F>
TUTTI_ALWAYS_INLINE inline void choose_cheapest(algorithm_list<A...> all, Comm& comm, Bytes bytes, F& f) {
  if constexpr (sizeof...(A) == 1) {
    (f.template operator()<A>(), ...);
  } else {
    const int best = cheapest<Choice, C, Commutes>(all, comm, bytes);
    int i = 0;
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

/// What a choice among algorithms chooses from on this kind of transport.
template <class Choice, collective C, class Comm>
using candidates_on = candidates<Choice, C, sharing_lane<typename Comm::lane_type>>;

template <class Algorithm>
inline constexpr bool is_choice = std::is_same_v<Algorithm, automatic> || std::is_same_v<Algorithm, ordered>;

/// Calls `f.template operator()<A>()` with the algorithm that the caller named or, for `automatic` and `ordered`, the
/// cheapest one, and gives back the scratch memory afterwards.
template <collective C, class Algorithm, bool Commutes, class Comm, class Bytes, class F>
TUTTI_ALWAYS_INLINE inline void choose(Comm& comm, Bytes bytes, F&& f) {
  const scratch_scope scope{comm.scratch()};
  if constexpr (!is_choice<Algorithm>) {
    require_algorithm<Algorithm, C>();
    if constexpr (implements<Algorithm, C>) {
      check_supported<Algorithm>(comm.place(), C);
      f.template operator()<Algorithm>();
    }
  } else {
    choose_cheapest<Algorithm, C, Commutes>(candidates_on<Algorithm, C, Comm>{}, comm, bytes, f);
  }
}

/// The schedule of a call: with its root, and in as many segments as its bytes are moved soonest in, the same on every
/// rank.
template <class S, class Comm>
TUTTI_ALWAYS_INLINE inline S schedule_of_call(Comm& comm, int root, std::size_t count, std::size_t bytes) {
  if constexpr (segmented<S>) {
    using predicted = typename Comm::predicted_cost;
    const auto cost = predict_pipeline<predicted, S>(comm.size(), comm.transport().costs());
    return make_schedule<S>(root, segments_of<S>(cost, count, bytes));
  } else {
    return make_schedule<S>(root);
  }
}

}  // namespace detail

}  // namespace tutti
