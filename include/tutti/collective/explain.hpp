// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/select.hpp>
#include <tutti/schedule/algorithm.hpp>
#include <tutti/schedule/cost.hpp>

#include <cstddef>
#include <iomanip>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

/// One algorithm that might have been taken for a call.
struct candidate {
  std::string_view algorithm;
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
  std::size_t bytes;
  std::string_view chosen;
  std::string reason;
  std::vector<candidate> candidates;  ///< in the order in which they are considered
};

namespace detail {

template <collective C, class A, class Comm>
candidate candidate_on(Comm& comm, std::size_t bytes, std::string_view refused) {
  using S = schedule_for<C, A>;
  using predicted = typename Comm::predicted_cost;
  const predicted cost = predict<predicted, S>(comm.size(), comm.transport().costs());
  int segments = 1;
  if constexpr (segmented<S>) segments = segments_of<S>(cost, bytes, bytes);
  const schedule_cost counted = count(make_schedule<S>(0, segments), comm.size());
  return {name_of<A>(), seconds<S>(cost, bytes), counted.rounds, counted.fan_in, segments, refused};
}

template <collective C, class Choice, bool Commutes, class Comm, class... A>
void add_candidates(explanation& result, Comm& comm, algorithm_list<A...>) {
  const auto add = [&]<class Candidate>() {
    std::string_view refused;
    if (!eligible<C, Candidate, Commutes>()) refused = "does not keep rank order";
    if (!admits<Choice, C, Candidate>(comm.size())) refused = "does not fold along the canonical tree";
    result.candidates.push_back(candidate_on<C, Candidate>(comm, result.bytes, refused));
  };
  (add.template operator()<A>(), ...);
}

}  // namespace detail

/// Tells which algorithm the collective `C` of `bytes` takes on this communicator, what else was considered, and why it
/// was not taken. `bytes` are those of the larger buffer, the whole vector, as it travels: where the operation works in
/// an accumulator of another type (`tutti::accumulator`), those of accumulators. `Algorithm` as in the call;
/// `Commutes`: whether its operation is known to commute. Sends nothing; any rank may ask.
///
/// `std::cout << tutti::explain<tutti::collective::allreduce>(comm, 4096)` prints it. Throws `usage_error` if the named
/// algorithm does not support this number of ranks.
template <collective C, class Algorithm = automatic, bool Commutes = true, class Comm>
explanation explain(Comm& comm, std::size_t bytes) {
  explanation result{C, comm.size(), bytes, {}, {}, {}};
  if constexpr (!detail::is_choice<Algorithm>) {
    detail::require_algorithm<Algorithm, C>();
    detail::check_supported<Algorithm>(comm.place(), C);
    result.candidates.push_back(detail::candidate_on<C, Algorithm>(comm, bytes, {}));
    result.chosen = name_of<Algorithm>();
    result.reason = "the caller named it";
  } else {
    detail::add_candidates<C, Algorithm, Commutes>(result, comm, detail::candidates_on<Algorithm, C, Comm>{});
    const candidate* best = nullptr;
    const candidate* second = nullptr;
    for (const candidate& one : result.candidates) {
      if (!one.refused.empty()) continue;
      if (best == nullptr || one.seconds < best->seconds) {
        second = best;
        best = &one;
      } else if (second == nullptr || one.seconds < second->seconds) {
        second = &one;
      }
    }
    result.chosen = best->algorithm;
    result.reason = second == nullptr ? "the only one that may be taken"
                    : best->seconds < second->seconds
                        ? "predicted to be faster than " + std::string(second->algorithm)
                        : "predicted to be as fast as " + std::string(second->algorithm) + " and considered before it";
  }
  return result;
}

/// A table of the candidates with the one that is taken marked, and the reason.
inline std::ostream& operator<<(std::ostream& out, const explanation& e) {
  out << name_of(e.call) << " of " << e.bytes << " bytes on " << e.ranks << (e.ranks == 1 ? " rank: " : " ranks: ")
      << e.chosen << ", " << e.reason << '\n';
  for (const candidate& one : e.candidates) {
    const auto flags = out.flags();
    const auto precision = out.precision();
    out << (one.algorithm == e.chosen ? "  * " : "    ") << std::left << std::setw(26) << one.algorithm << std::right
        << std::setw(12) << std::fixed << std::setprecision(2) << one.seconds * 1e6 << " us, " << one.rounds
        << (one.rounds == 1 ? " round" : " rounds") << " of up to " << one.fan_in
        << (one.fan_in == 1 ? " message" : " messages");
    out.flags(flags);
    out.precision(precision);
    if (one.segments > 1) out << ", " << one.segments << " segments";
    if (!one.refused.empty()) out << "; " << one.refused;
    out << '\n';
  }
  return out;
}

}  // namespace tutti
