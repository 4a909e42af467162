// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/simulated/options.hpp>

#include <cmath>

namespace tutti::detail {

/// The number of ranks. Throws `usage_error` unless the options make sense for so many.
inline int checked_size(int size, const simulated_options& o) {
  const auto refuse = [](const char* what) { throw usage_error(message() << "run_simulated: " << what); };
  const auto duration = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
  if (!duration(o.net.latency) || !duration(o.net.overhead) || !duration(o.net.gap) || !duration(o.net.byte) ||
      !duration(o.net.fold))
    refuse("a time of the network is negative or not finite");
  if (o.net.ports < 1 || o.net.ports > simulated_options::most_ports)
    refuse((message() << "the network has " << o.net.ports << " ports, must have at least 1 and at most "
                      << simulated_options::most_ports)
               .str()
               .c_str());
  if (!duration(o.jitter)) refuse("the jitter is negative or not finite");
  if (!(o.reorder.probability >= 0 && o.reorder.probability <= 1)) refuse("reorder.probability is not in [0, 1]");
  if (!duration(o.reorder.delay)) refuse("reorder.delay is negative or not finite");
  if (o.timeout < o.timeout.zero()) refuse("the timeout is negative");
  const auto is_rank = [&](const char* what, int rank) {
    if (rank >= 0 && rank < size) return;
    refuse((message() << what << " is rank " << rank << ", not in [0, " << size << ")").str().c_str());
  };
  for (const dropped_message& d : o.drop) {
    is_rank("drop.from", d.from);
    is_rank("drop.to", d.to);
  }
  for (const crashed_rank& c : o.crash) is_rank("crash.rank", c.rank);
  return size;
}

}  // namespace tutti::detail
