// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/topology.hpp>
#include <tutti/schedule/cost.hpp>

#include <algorithm>
#include <cstddef>

namespace tutti {

namespace detail {

template <schedule S, topology T, class Measure>
constexpr double link_load_by(const S& s, const T& wires, const Measure& measure) {
  int rounds = 0;
  for (int rank = 0; rank < wires.size; ++rank) rounds = std::max(rounds, s.rounds(place_on(wires, rank)));
  double sum = 0;
  proof_buffer<double> load(wires.links());
  for (int k = 0; k < rounds; ++k) {
    for (double& l : load) l = 0;
    for (int rank = 0; rank < wires.size; ++rank) {
      const place at = place_on(wires, rank);
      if (k >= s.rounds(at)) continue;
      for_each_message(s, at, k, measure, [&](const message_end& m) {
        if (!m.sent) return;
        const int hops = wires.hops(rank, m.peer);
        for (int i = 0; i < hops; ++i) load[wires.link(rank, m.peer, i)] += static_cast<double>(m.size);
      });
    }
    double busiest = 0;
    for (int l = 0; l < wires.links(); ++l) busiest = std::max(busiest, load[l] / wires.width(l));
    sum += busiest;
  }
  return sum;
}

}  // namespace detail

/// What the busiest link of each round carries, in blocks, summed over the rounds: where links and not ports are short,
/// the schedule takes as long as a port takes for so many blocks. What a link of width w carries counts 1/w.
template <schedule S, topology T>
constexpr double link_load(const S& s, const T& wires) {
  return detail::link_load_by(s, wires, detail::set_blocks{});
}

/// The same in bytes, for a vector of `bytes` bytes.
template <schedule S, topology T>
constexpr double link_load(const S& s, const T& wires, std::size_t bytes) {
  return detail::link_load_by(s, wires, detail::set_bytes{{bytes, blocks_of(s, place_on(wires, 0))}});
}

}  // namespace tutti
