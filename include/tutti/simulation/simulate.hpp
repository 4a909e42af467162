// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: how long would a schedule take on a network that is not here? It needs neither data nor transport,
// only the schedule and the network's parameters.

#include <tutti/core/network.hpp>
#include <tutti/core/topology.hpp>
#include <tutti/schedule/schedule.hpp>
#include <tutti/simulation/each_rank.hpp>
#include <tutti/simulation/one_rank.hpp>
#include <tutti/simulation/result.hpp>
#include <tutti/simulation/symmetry.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace tutti {

namespace detail {

/// What `relays_blocks` schedules come to whose blocks are uneven: the time is that of blocks as large as the largest,
/// but fewer bytes are sent. A rank sends all blocks but one in each half, in an allreduce all but two neighbours.
template <schedule S>
simulation_result simulate_relay(const S& s, int size, std::size_t bytes, const network& net) {
  const layout blocks(bytes, size);
  const std::size_t padded = static_cast<std::size_t>(size) * (blocks.even_size() + 1);
  simulation_result result = simulate_one_rank(s, size, padded, net);
  const auto n = static_cast<long long>(bytes);
  const auto least = static_cast<long long>(blocks.even_size());
  if (result.rounds == size - 1) {
    result.bytes = (size - 1) * n;
    result.busiest = n - least;
  } else {
    const bool lone = blocks.count() % static_cast<std::size_t>(size) == static_cast<std::size_t>(size - 1);
    result.bytes = 2LL * (size - 1) * n;
    result.busiest = 2 * n - 2 * least - (lone ? 1 : 0);
  }
  return result;
}

}  // namespace detail

/// How long `s` takes among `size` ranks with a vector of `bytes` bytes, divided as `layout` divides it, on a network
/// of which nothing is shared but the ranks' ports (`network` says how). All ranks begin at 0. A rank's round begins
/// when the one before is complete: the last byte of its sends has left, and all arrivals are taken in and folded, in
/// the order in which they came. Sends are handed over in listed order. Messages between two ranks are matched in FIFO
/// order; ranks may be in different rounds. The same arguments always give the same result.
///
/// The schedule is asked for each round of each rank once, and never stored. 64 bytes for each rank and 24 for each
/// message on its way; about 0.1 us for a message, so 2^20 ranks take seconds in any schedule of O(log p) rounds. Where
/// all ranks do the same at the same time one stands for all: then the time is that of one rank. Throws `usage_error`
/// if the network is none, or a rank waits for what nobody sends.
template <schedule S>
simulation_result simulate(const S& s, int size, std::size_t bytes, const network& net) {
  if (size < 1) throw usage_error("simulate: " + std::to_string(size) + " ranks, not 1 or more");
  if (symmetric_schedule<S>::among(size)) {
    if (bytes % static_cast<std::size_t>(s.blocks(size)) == 0) return simulate_one_rank(s, size, bytes, net);
    if constexpr (relays_blocks<S>) return detail::simulate_relay(s, size, bytes, net);
  }
  return simulate_each_rank(s, size, bytes, net);
}

/// The same on `wires.size` ranks between which links are shared. A link carries one message at a time, in the order in
/// which their first bytes come to it, and passes bytes on as they come; switches have room for what waits. A message's
/// latency is that of its whole way. An event for each link that a message crosses.
template <schedule S, topology T>
simulation_result simulate(const S& s, const T& wires, std::size_t bytes, const network& net) {
  return simulate_each_rank(s, wires, bytes, net);
}

}  // namespace tutti
