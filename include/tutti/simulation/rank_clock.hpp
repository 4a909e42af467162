// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/network.hpp>
#include <tutti/simulation/ports.hpp>

#include <algorithm>

namespace tutti::detail {

/// When the processor and the ports of one rank are free: the network's model, as `network` describes it, in seconds.
struct rank_clock {
  double processor = 0;  ///< idle from then on
  double sent = 0;       ///< the last byte of what has been sent until now leaves
  double out = 0;        ///< the port for sending is free, where there is one
  double in = 0;         ///< the port for receiving is free, where there is one

  /// Sends `bytes` bytes; tells when the first of them leaves.
  double send(const network& net, port_heap ports, double bytes) {
    processor += net.overhead;
    const double start = std::max(processor, ports.earliest());
    const double end = start + bytes * net.byte;
    ports.occupy(end + net.gap);
    sent = std::max(sent, end);
    return start;
  }

  /// A message of `bytes` bytes comes in, the first byte at `first` or later, the last not before `last`; tells when
  /// the last one has.
  static double receive(const network& net, port_heap ports, double first, double last, double bytes) {
    const double start = std::max(first, ports.earliest());
    const double end = std::max(last, start + bytes * net.byte);
    ports.occupy(end + net.gap);
    return end;
  }

  /// The processor takes in a message that has come in at `end`; `folding` is the time to fold it.
  void take_in(const network& net, double end, double folding) {
    processor = std::max(processor, end) + net.overhead + folding;
  }

  /// Everything of the round has been sent and taken in: the next one begins now.
  void finish_round() { processor = std::max(processor, sent); }
};

}  // namespace tutti::detail
