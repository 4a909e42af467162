// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/address.hpp>
#include <tutti/transport/tcp/membership.hpp>

#include <string>

namespace tutti::detail {

/// Where it is already known that ranks on different hosts cannot reach each other: why, and what to set; else empty.
/// `member_of(rank)` is what is known of that one.
template <class MemberOf>
std::string unreachable(int size, MemberOf&& member_of) {
  for (int rank = 1; rank < size; ++rank) {
    const tcp_member& m = member_of(rank);
    for (int other = 0; other < size; ++other) {
      const tcp_member& o = member_of(other);
      if (o.network == m.network) continue;
      const bool same = o.endpoint.address() == m.endpoint.address();
      if (!m.endpoint.address().is_loopback() && !same) continue;
      message text;
      text << "tcp start: rank " << rank << " listens at " << endpoint_text(m.endpoint) << ", where rank " << other
           << " on another host cannot reach it";
      if (same) text << ": it has the same address itself";
      return text << "; give rank " << rank
                  << " an address or interface (TUTTI_ADDRESS, TUTTI_INTERFACE) that others reach, or a master "
                     "(MASTER_ADDR) that no host takes for itself";
    }
  }
  return {};
}

}  // namespace tutti::detail
