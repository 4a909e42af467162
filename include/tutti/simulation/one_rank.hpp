// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/network.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/simulation/arrivals.hpp>
#include <tutti/simulation/engine.hpp>
#include <tutti/simulation/rank_clock.hpp>
#include <tutti/simulation/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace tutti {

/// As `simulate`, for schedules in which all ranks do the same at the same time: rank 0 alone, to which everything
/// comes as it sends it to others. The result is that of `simulate_each_rank`, bit for bit. Requires
/// `symmetric_schedule<S>::among(size)` and even blocks. Time: that of one rank; the ring's 2^21 rounds take a moment.
template <schedule S>
simulation_result simulate_one_rank(const S& s, int size, std::size_t bytes, const network& net) {
  detail::check_network(net);
  const detail::set_bytes measure{{bytes, s.blocks(size)}};
  const place at{0, size};
  const auto ports = static_cast<std::size_t>(net.ports);
  std::vector<double> out(ports), in(ports);
  struct flight {
    double first;
    double bytes;
  };
  std::vector<flight> flights;
  detail::rank_clock clock;
  detail::arrival_group awaited;
  simulation_result result;
  result.rounds = s.rounds(at);
  for (int k = next_round(s, at, 0); k < result.rounds; k = next_round(s, at, k + 1)) {
    flights.clear();
    std::size_t arrivals = 0;
    double local = 0;
    for_each_message(s, at, k, measure, [&](const message_end& m) {
      if (m.sent) {
        const auto amount = static_cast<double>(m.size);
        flights.push_back({clock.send(net, {out.data(), net.ports}, amount) + net.latency, amount});
        result.bytes += m.size;
      } else if (m.peer == at.rank) {
        local += static_cast<double>(m.folded) * net.fold;
      } else {
        awaited.expect(static_cast<int>(arrivals++), static_cast<double>(m.folded) * net.fold);
      }
    });
    if (arrivals != flights.size()) {
      throw usage_error("simulate_one_rank: rank 0 of " + std::to_string(size) + " sends " +
                        std::to_string(flights.size()) + " messages in round " + std::to_string(k) + " and gets " +
                        std::to_string(arrivals) + ": the ranks do not do the same");
    }
    clock.processor += local;
    for (std::size_t i = 0; i < flights.size(); ++i) {
      const auto [first, amount] = flights[i];
      awaited.arrive(static_cast<int>(i), detail::rank_clock::receive(net, {in.data(), net.ports}, first, 0, amount));
    }
    awaited.take_in(net, clock);
    clock.finish_round();
    result.messages += static_cast<long long>(arrivals);
  }
  result.events = result.messages;
  result.makespan = clock.processor;
  result.busiest = result.bytes;
  result.bytes *= size;
  result.messages *= size;
  return result;
}

}  // namespace tutti
