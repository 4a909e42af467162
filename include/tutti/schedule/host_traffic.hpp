// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>
#include <tutti/schedule/cost.hpp>

#include <algorithm>
#include <cstddef>

namespace tutti {

/// What goes between hosts in a schedule, counted from it, in blocks or bytes.
struct host_traffic {
  long long messages = 0;  ///< between hosts, of all ranks
  long long busiest = 0;   ///< of them, sent by the host that sends most
  long long volume = 0;    ///< blocks or bytes between hosts
  long long sent = 0;      ///< by the ranks of the host that sends most
  long long received = 0;  ///< by the ranks of the host that receives most

  friend constexpr bool operator==(const host_traffic&, const host_traffic&) = default;
};

namespace detail {

template <schedule S, class Measure>
constexpr host_traffic between_hosts(const S& s, const host_map& hosts, const Measure& measure) {
  host_traffic all;
  for (int host = 0; host < hosts.hosts(); ++host) {
    host_traffic mine;
    for (int index = 0; index < hosts.ranks_on(host); ++index) {
      const place at{hosts.rank(host, index), hosts.ranks(), &hosts};
      const int rounds = s.rounds(at);
      for (int k = next_round(s, at, 0); k < rounds; k = next_round(s, at, k + 1)) {
        for_each_message(s, at, k, measure, [&](const message_end& m) {
          if (hosts.host(m.peer) == host) return;
          (m.sent ? mine.sent : mine.received) += m.size;
          if (m.sent) ++mine.messages;
        });
      }
    }
    all.messages += mine.messages;
    all.busiest = std::max(all.busiest, mine.messages);
    all.volume += mine.sent;
    all.sent = std::max(all.sent, mine.sent);
    all.received = std::max(all.received, mine.received);
  }
  return all;
}

}  // namespace detail

/// Counts what goes between hosts, in blocks. Consecutive steps of a round to the same peer are one message.
template <schedule S>
constexpr host_traffic count_between_hosts(const S& s, const host_map& hosts) {
  return detail::between_hosts(s, hosts, detail::set_blocks{});
}

/// The same in bytes, for a vector of `bytes` bytes divided as `layout` divides it.
template <schedule S>
constexpr host_traffic count_between_hosts(const S& s, const host_map& hosts, std::size_t bytes) {
  const place any{0, hosts.ranks(), &hosts};
  return detail::between_hosts(s, hosts, detail::set_bytes{{bytes, blocks_of(s, any)}});
}

}  // namespace tutti
