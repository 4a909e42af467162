// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>
#include <tutti/core/topology.hpp>

namespace tutti {

/// Hosts on one switch: link h carries all that leaves host h, link H + h all that comes into it, of H hosts, each as
/// much in the same time as `links_width` ranks' ports. Within a host nothing is shared but the ranks' ports.
struct host_topology {
  const host_map* hosts;
  double links_width = 1;
  int size = hosts->ranks();

  constexpr int links() const { return 2 * hosts->hosts(); }
  constexpr int hops(int from, int to) const { return hosts->host(from) == hosts->host(to) ? 0 : 2; }
  constexpr int link(int from, int to, int i) const {
    return i == 0 ? hosts->host(from) : hosts->hosts() + hosts->host(to);
  }
  constexpr double width(int) const { return links_width; }
};

static_assert(topology<host_topology>);

}  // namespace tutti
