// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/network.hpp>
#include <tutti/core/topology.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/simulation/engine.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace tutti {

namespace detail {

/// Rounds of the rank, from the one that it has come to on, until it must wait.
template <schedule S, topology T>
void go_on(simulation_engine<T>& engine, const S& s, const set_bytes& measure, place at) {
  const int rounds = s.rounds(at);
  for (;;) {
    const int k = next_round(s, at, engine.round(at.rank));
    if (k >= rounds) break;
    engine.round(at.rank) = k + 1;
    for_each_message(s, at, k, measure, [&](const message_end& m) {
      if (m.sent) {
        engine.send(at.rank, m.peer, m.size);
      } else if (m.peer == at.rank) {
        engine.fold(m.folded);
      } else {
        engine.expect(at.rank, m.peer, m.folded);
      }
    });
    if (!engine.end_round(at.rank)) return;
  }
  engine.finish(at.rank, rounds);
}

}  // namespace detail

/// As `simulate`, but always every rank, event by event. `finish`, empty or one time for each rank, takes the seconds
/// at which the ranks have finished.
template <schedule S, topology T>
simulation_result simulate_each_rank(const S& s, const T& wires, std::size_t bytes, const network& net,
                                     std::span<double> finish = {}) {
  if (wires.size < 1) throw usage_error("simulate: " + std::to_string(wires.size) + " ranks, not 1 or more");
  if (!finish.empty() && finish.size() != static_cast<std::size_t>(wires.size)) {
    throw usage_error("simulate: room for the times of " + std::to_string(finish.size()) + " ranks, not of " +
                      std::to_string(wires.size));
  }
  detail::check_network(net);
  const detail::set_bytes measure{{bytes, blocks_of(s, place_on(wires, 0))}};
  detail::simulation_engine<T> engine(wires, net);
  for (int rank = 0; rank < wires.size; ++rank) detail::go_on(engine, s, measure, place_on(wires, rank));
  for (int rank = engine.next(); rank >= 0; rank = engine.next()) {
    detail::go_on(engine, s, measure, place_on(wires, rank));
  }
  engine.check_end();
  for (std::size_t rank = 0; rank < finish.size(); ++rank) finish[rank] = engine.time(static_cast<int>(rank));
  return engine.totals();
}

/// The same where nothing is shared but the ranks' ports.
template <schedule S>
simulation_result simulate_each_rank(const S& s, int size, std::size_t bytes, const network& net,
                                     std::span<double> finish = {}) {
  return simulate_each_rank(s, full_topology{size}, bytes, net, finish);
}

}  // namespace tutti
