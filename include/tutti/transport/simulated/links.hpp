// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/simulated/chance.hpp>
#include <tutti/transport/simulated/options.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// The ports of all ranks and what lies between them: how long a message takes.
class links {
 public:
  links(int ranks, const simulated_options& options)
      : chance_(options.seed),
        latency_(span_of(options.net.latency)),
        gap_(span_of(options.net.gap)),
        byte_(options.net.byte),
        jitter_(options.jitter),
        held_(options.reorder),
        ports_(static_cast<std::size_t>(options.net.ports)),
        sending_(static_cast<std::size_t>(ranks) * ports_, "the ports of the network"),
        receiving_(sending_.size(), "the ports of the network") {}

  /// A message goes to the sender's port at that time: when its first byte leaves.
  virtual_time depart(int rank, virtual_time at, std::size_t bytes) { return reserve(sending_, rank, at, bytes); }
  /// How long its first byte then is under way. The `number`-th message of the pair always has the same luck.
  virtual_time under_way(int from, int to, std::uint64_t number) const {
    if (jitter_ <= 0 && held_.probability <= 0) return latency_;
    const chance luck = chance_.of(static_cast<unsigned>(from)).of(static_cast<unsigned>(to)).of(number);
    double more = jitter_ * luck.of(0).uniform();
    if (luck.of(1).uniform() < held_.probability) more += held_.delay;
    return latency_ + span_of(more);
  }
  /// Its first byte arrives at that time: when its last byte is there.
  virtual_time arrive(int rank, virtual_time at, std::size_t bytes) {
    return after(reserve(receiving_, rank, at, bytes), span(bytes));
  }
  /// How long it keeps a port busy.
  virtual_time span(std::size_t bytes) const { return after(gap_, span_of(static_cast<double>(bytes) * byte_)); }

 private:
  /// The port that is free first: from when on the message has it.
  virtual_time reserve(owned_array<virtual_time>& ports, int rank, virtual_time at, std::size_t bytes) {
    virtual_time* const first = ports.data() + static_cast<std::size_t>(rank) * ports_;
    virtual_time* const port = std::min_element(first, first + ports_);
    const virtual_time begin = later(at, *port);
    *port = after(begin, span(bytes));
    return begin;
  }

  chance chance_;
  virtual_time latency_;
  virtual_time gap_;
  double byte_;
  double jitter_;
  held_back held_;
  std::size_t ports_;
  owned_array<virtual_time> sending_;  // when each port is free
  owned_array<virtual_time> receiving_;
};

}  // namespace tutti::detail
