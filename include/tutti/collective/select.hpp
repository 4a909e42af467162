// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/candidates.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/critical_path.hpp>
#include <tutti/schedule/segments.hpp>

#include <algorithm>
#include <concepts>
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
Predicted predict_pipeline(place any, const cost_parameters& parameters) {
  const pipeline p = pipeline_of<S>(any);
  constexpr bool folds_some = folding<S> != folds::nothing;
  return {parameters.round + parameters.message, parameters.byte + (folds_some ? parameters.fold : 0), p.fixed, p.each};
}

/// What the schedule costs: a rank waits for each round, unless all goes one way, handles the messages that arrive at
/// it one after the other, and reads and folds their bytes; of each round the rank that has most to do counts.
template <class Predicted, class S>
[[gnu::noinline]] Predicted predict(int size, const cost_parameters& parameters) {
  if constexpr (segmented<S>) {
    return predict_pipeline<Predicted, S>({0, size}, parameters);
  } else {
    const S schedule = make_schedule<S>(0);
    const critical_path c = follow(schedule, size);
    const double blocks = schedule.blocks(size);
    const bool one_way = parameters.one_way != 0 && !exchanges(schedule, size);
    double byte = one_way && c.rounds > 1   ? parameters.copied_byte
                  : one_way && c.fan_in > 1 ? parameters.gathered_byte
                                            : parameters.byte;
    if (whole_vector<S> && !one_way && parameters.vectors != 0) {
      const double others = (c.fan_in - 1) / parameters.vectors;
      byte *= 1.01 + others * others;
    }
    return {c.rounds * ((one_way ? parameters.one_way : parameters.round) + c.fan_in * parameters.message),
            (static_cast<double>(c.received) * byte + static_cast<double>(c.folds) * parameters.fold) / blocks, 0, 0};
  }
}

/// What a transport's messages cost: within a host, and between hosts if that is not the same.
template <class T>
cost_parameters costs_between_hosts(const T& transport) {
  if constexpr (requires {
                  { transport.costs_between_hosts() } -> std::same_as<cost_parameters>;
                }) {
    return transport.costs_between_hosts();
  } else {
    return transport.costs();
  }
}

/// A schedule that pipelines between hosts alone: what is done within them, by `within`, is done before or after it.
template <class S>
struct pipeline_between {
  static constexpr bool alone = false;
};
template <collective C, class Inner, class Outer>
struct pipeline_between<two_level_rooted<C, Inner, Outer>> {
  using within = schedule_for<C, Inner>;
  using schedule = schedule_for<C, Outer>;
  static constexpr bool alone = segmented<schedule> && !segmented<within>;
};

/// What a pipeline costs where hosts are several: a round waits for another host, and unless few talk for all the ranks
/// of a host share its way out.
template <class Predicted, segmented S>
Predicted predict_pipeline_on_hosts(const host_map& hosts, const cost_parameters& within,
                                    const cost_parameters& between) {
  if constexpr (pipeline_between<S>::alone) {
    return predict_pipeline<Predicted, typename pipeline_between<S>::schedule>(
        {0, hosts.hosts()}, {between.round, between.message, between.byte, within.fold});
  } else {
    const int talking = is_two_level<S> ? 1 : hosts.size(hosts.different_sizes() - 1);
    return predict_pipeline<Predicted, S>(
        {0, hosts.ranks(), &hosts},
        {between.round, between.message, std::max(within.byte, talking * between.byte), within.fold});
  }
}

/// `predict` where hosts are several. A rank waits for each round as long as its furthest message takes, and handles
/// its messages one after the other; the bytes between hosts are those of all ranks of a host, which share its way out
/// and its way in.
template <class Predicted, class S>
[[gnu::noinline]] Predicted predict_on_hosts(const host_map& hosts, const cost_parameters& within,
                                             const cost_parameters& between) {
  if constexpr (segmented<S>) {
    Predicted cost = predict_pipeline_on_hosts<Predicted, S>(hosts, within, between);
    if constexpr (pipeline_between<S>::alone) {
      cost_parameters waiting = within;  // for every round, as is counted of the other candidates on several hosts
      waiting.one_way = 0;
      const auto inner =
          predict<Predicted, typename pipeline_between<S>::within>(hosts.size(hosts.different_sizes() - 1), waiting);
      cost.apart = inner.fixed;
      cost.apart_each = inner.each;
    }
    return cost;
  } else {
    const S schedule = make_schedule<S>(0);
    const critical_path_on_hosts c = follow(schedule, hosts);
    const double blocks = blocks_of(schedule, {0, hosts.ranks(), &hosts});
    const auto fixed = [](const critical_path_on_hosts::part& part, const cost_parameters& p) {
      return part.rounds * p.round + static_cast<double>(part.messages) * p.message;
    };
    return {fixed(c.within, within) + fixed(c.between, between),
            (static_cast<double>(c.within.blocks) * within.byte + static_cast<double>(c.between.blocks) * between.byte +
             static_cast<double>(c.folds) * within.fold) /
                blocks,
            0, 0};
  }
}

/// The map of the hosts where there are several, else null.
template <class Comm>
TUTTI_ALWAYS_INLINE inline const host_map* several_hosts([[maybe_unused]] const Comm& comm) {
  if constexpr (hosted_transport<typename Comm::transport_type>) {
    const host_map* const hosts = comm.transport().hosts();
    if (hosts != nullptr && hosts->hosts() > 1) return hosts;
  }
  return nullptr;
}

/// What the schedule costs on this communicator.
template <class S, class Comm>
auto predict_for(Comm& comm) {
  using predicted = typename Comm::predicted_cost;
  if constexpr (hosted_transport<typename Comm::transport_type>) {
    if (const host_map* const hosts = several_hosts(comm))
      return predict_on_hosts<predicted, S>(*hosts, comm.transport().costs(), costs_between_hosts(comm.transport()));
  }
  return predict<predicted, S>(comm.size(), comm.transport().costs());
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
    const double pipelined = (cost.rounds + cost.rounds_each * k) * (cost.fixed + cost.each * n / k);
    if constexpr (is_two_level<S>) {
      return pipelined + cost.apart + cost.apart_each * n;
    } else {
      return pipelined;
    }
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
  static_assert(sizeof...(A) <= Comm::max_candidates && 2 * collective_count <= Comm::max_choices);
  auto& table = comm.costs(choice_number<Choice, C>);
  if (!table.counted) [[unlikely]] {
    std::size_t i = 0;
    ((table.candidates[i++] = predict_for<schedule_for<C, A>>(comm)), ...);
    table.counted = true;
  }
  return table.candidates;
}

template <collective C, class A, bool Commutes>
constexpr bool eligible() {
  return Commutes || schedule_for<C, A>::rank_ordered;
}

/// Whether the choice may take the candidate at that place.
template <class Choice, collective C, class A>
constexpr bool admits([[maybe_unused]] place at) {
  constexpr bool folds = C == collective::reduce || C == collective::reduce_scatter || C == collective::allreduce;
  if constexpr (std::is_same_v<Choice, ordered> && folds) {
    return canonical<schedule_for<C, A>>(at.size);
  } else if constexpr (is_two_level<A>) {
    return has_two_levels(at.hosts);
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
      if (eligible<C, Candidate, Commutes>() && admits<Choice, C, Candidate>(comm.place())) {
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

template <class... A, class... B>
algorithm_list<A..., B...> joined(algorithm_list<A...>, algorithm_list<B...>);

/// What a choice among algorithms chooses from on this kind of transport.
template <class Choice, collective C, class Comm, bool Hosted = hosted_transport<typename Comm::transport_type>>
struct candidates_on : candidates<Choice, C, sharing_lane<typename Comm::lane_type>> {};
template <class Choice, collective C, class Comm>
struct candidates_on<Choice, C, Comm, true>
    : decltype(joined(candidates<Choice, C, sharing_lane<typename Comm::lane_type>>{},
                      candidates_of_two_levels<Choice, C>{})) {};

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

/// What `predict_for` counts of a pipeline alone: by what it is cut, the same on every rank.
template <segmented S, class Comm>
TUTTI_ALWAYS_INLINE inline auto predict_pipeline_for(const Comm& comm) {
  using predicted = typename Comm::predicted_cost;
  if constexpr (hosted_transport<typename Comm::transport_type>) {
    if (const host_map* const hosts = several_hosts(comm))
      return predict_pipeline_on_hosts<predicted, S>(*hosts, comm.transport().costs(),
                                                     costs_between_hosts(comm.transport()));
  }
  return predict_pipeline<predicted, S>({0, comm.size()}, comm.transport().costs());
}

/// The schedule of a call: with its root, and in as many segments as its bytes are moved soonest in, the same on every
/// rank.
template <class S, class Comm>
TUTTI_ALWAYS_INLINE inline S schedule_of_call(Comm& comm, int root, std::size_t count, std::size_t bytes) {
  if constexpr (segmented<S>) {
    return make_schedule<S>(root, segments_of<S>(predict_pipeline_for<S>(comm), count, bytes));
  } else {
    return make_schedule<S>(root);
  }
}

}  // namespace detail

}  // namespace tutti
