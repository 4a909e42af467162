// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/scan.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/core/type_name.hpp>
#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/cost.hpp>

#include <cstddef>
#include <iomanip>
#include <locale>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// One algorithm that might have been taken for a call.
struct candidate {
  std::string_view algorithm;
  std::size_t bytes;         ///< of the whole vector as this algorithm sends it
  double seconds;            ///< predicted, from the counted schedule and the transport's parameters
  int rounds;                ///< of the rank that has most
  int fan_in;                ///< most messages that arrive at one rank in one round
  int segments;              ///< in which it pipelines, 1 if it does not
  std::string_view refused;  ///< why it may not be taken; empty if it may
};

/// Which algorithm a call takes, and why.
struct explanation {
  collective call;
  int ranks;
  std::size_t elements;        ///< of the whole vector; if only the bytes were told, those
  std::size_t bytes;           ///< of the whole vector as the caller has it
  std::string_view type;       ///< of the elements; empty if only the bytes were told
  std::string_view operation;  ///< the same
  std::string_view chosen;
  std::string reason;
  std::vector<candidate> candidates;  ///< in the order in which they are considered
};

namespace detail {

template <collective C, class A, class Comm, class Bytes>
candidate candidate_on(Comm& comm, std::size_t elements, const Bytes& whole, std::string_view refused) {
  using S = schedule_for<C, A>;
  const std::size_t bytes = bytes_by<C, A>(whole);
  const auto cost = predict_for<S>(comm);
  int segments = 1;
  if constexpr (segmented<S>) segments = segments_of<S>(cost, elements, bytes);
  const S schedule = make_schedule<S>(0, segments);
  const host_map* const hosts = comm.place().hosts;
  const schedule_cost counted = hosts == nullptr ? count(schedule, comm.size()) : count(schedule, *hosts);
  return {name_of<A>(), bytes, seconds<S>(cost, bytes), counted.rounds, counted.fan_in, segments, refused};
}

template <collective C, class Choice, bool Commutes, class Comm, class Bytes, class... A>
void add_candidates(explanation& result, Comm& comm, const Bytes& bytes, algorithm_list<A...>) {
  const auto add = [&]<class Candidate>() {
    std::string_view refused;
    if (!eligible<C, Candidate, Commutes>()) refused = "does not keep rank order";
    if (!admits<Choice, C, Candidate>(comm.place()))
      refused = is_two_level<Candidate> ? "needs several hosts, and several ranks on one of them"
                                        : "does not fold along the canonical tree";
    result.candidates.push_back(candidate_on<C, Candidate>(comm, result.elements, bytes, refused));
  };
  (add.template operator()<A>(), ...);
}

/// Why the best is taken and not the cheapest one of the others.
inline std::string reason_for(const candidate& best, const std::vector<candidate>& all) {
  const candidate* second = nullptr;
  for (const candidate& one : all)
    if (&one != &best && one.refused.empty() && (second == nullptr || one.seconds < second->seconds)) second = &one;
  if (second == nullptr) return "the only one that may be taken";
  const std::string name(second->algorithm);
  if (best.seconds < second->seconds) return "predicted to be faster than " + name;
  return "predicted to be as fast as " + name + " and considered before it";
}

/// Completes an explanation that tells the call. `bytes` is a number, or what schedules make one of.
template <collective C, class Algorithm, bool Commutes, class Comm, class Bytes>
void explain_choice(explanation& result, Comm& comm, const Bytes& bytes) {
  if constexpr (is_choice<Algorithm>) {
    using all = candidates_on<Algorithm, C, Comm>;
    add_candidates<C, Algorithm, Commutes>(result, comm, bytes, all{});
    const auto best = static_cast<std::size_t>(cheapest<Algorithm, C, Commutes>(all{}, comm, bytes));
    result.chosen = result.candidates[best].algorithm;
    result.reason = reason_for(result.candidates[best], result.candidates);
  } else {
    require_algorithm<Algorithm, C>();
    check_supported<Algorithm>(comm.place(), C);
    result.candidates.push_back(candidate_on<C, Algorithm>(comm, result.elements, bytes, {}));
    result.chosen = name_of<Algorithm>();
    result.reason = "the caller named it";
  }
}

}  // namespace detail

/// Tells which algorithm the collective `C` of `bytes` takes on this communicator, what else was considered, and why it
/// was not taken. `bytes` are those of the larger buffer, the whole vector, as it travels: where the operation works in
/// an accumulator of another type (`tutti::accumulator`), use the form that is told the types. `Algorithm` as in the
/// call; `Commutes`: whether its operation is known to commute. Sends nothing; any rank may ask.
///
/// `std::cout << tutti::explain<tutti::collective::allreduce>(comm, 4096)` prints it. Throws `usage_error` if the named
/// algorithm does not support this number of ranks.
template <collective C, class Algorithm = automatic, bool Commutes = true, class Comm>
explanation explain(Comm& comm, std::size_t bytes) {
  explanation result{C, comm.size(), bytes, bytes, {}, {}, {}, {}, {}};
  detail::explain_choice<C, Algorithm, Commutes>(result, comm, bytes);
  return result;
}

/// The same for a reduction of so many elements of type T, those of the larger buffer, by an operation of type Op: each
/// algorithm is predicted with the bytes that it sends, which are those of accumulators where it sends accumulators.
///
/// `tutti::explain<tutti::collective::allreduce, tutti::automatic, int, tutti::average>(comm, 1000)`.
template <collective C, class Algorithm, class T, class Op, class Comm>
explanation explain(Comm& comm, std::size_t elements) {
  constexpr bool prefix = C == collective::scan || C == collective::exscan;
  static_assert(prefix || C == collective::reduce || C == collective::reduce_scatter || C == collective::allreduce,
                "tutti: only reductions have an operation: of other collectives tell the bytes");
  detail::require_operation<Op, T>();
  if constexpr (prefix) detail::require_prefix_operation<Op>();
  if constexpr (!detail::is_choice<Algorithm> && implements<Algorithm, C>) {
    using S = schedule_for<C, Algorithm>;
    detail::require_order<S, Op, T>();
    if constexpr (C == collective::allreduce) detail::require_uniform<S, Op, T>();
  }
  explanation result{C, comm.size(), elements, elements * sizeof(T), type_name<T>(), type_name<Op>(), {}, {}, {}};
  detail::explain_choice<C, Algorithm, is_commutative_v<Op, T>>(result, comm, detail::bytes_of<T, Op>(elements));
  return result;
}

/// A table of the candidates with the one that is taken marked, and the reason. How the stream shows numbers has no
/// part in it.
inline std::ostream& operator<<(std::ostream& out, const explanation& e) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << name_of(e.call) << " of ";
  if (e.type.empty()) {
    text << e.bytes << " bytes";
  } else {
    text << e.elements << " x " << e.type << " with " << e.operation;
  }
  text << " on " << e.ranks << (e.ranks == 1 ? " rank: " : " ranks: ") << e.chosen << ", " << e.reason << '\n';
  text << std::fixed << std::setprecision(2);
  for (const candidate& one : e.candidates) {
    text << (one.algorithm == e.chosen ? "  * " : "    ") << std::left << std::setw(26) << one.algorithm << std::right
         << std::setw(12) << one.seconds * 1e6 << " us, " << one.rounds << (one.rounds == 1 ? " round" : " rounds")
         << " of up to " << one.fan_in << (one.fan_in == 1 ? " message" : " messages");
    if (one.segments > 1) text << ", " << one.segments << " segments";
    if (one.bytes != e.bytes) text << ", a vector of " << one.bytes << " bytes";
    if (!one.refused.empty()) text << "; " << one.refused;
    text << '\n';
  }
  return out << text.str();
}

}  // namespace tutti
