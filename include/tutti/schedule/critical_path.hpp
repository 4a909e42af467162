// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>
#include <tutti/schedule/cost.hpp>

#include <algorithm>

namespace tutti {

namespace detail {

/// What stands between the beginning and the end of a collective: in each round the rank that gets most.
struct critical_path {
  int rounds = 0;
  int fan_in = 0;          // most messages that arrive at one rank in one round
  long long received = 0;  // blocks, of each round the most that one rank receives, added up
  long long folds = 0;     // likewise
};

/// What one rank has to do in a round.
struct work_of_round {
  int sent = 0;            // messages
  int arrivals = 0;        // likewise
  long long received = 0;  // blocks
  long long folds = 0;     // likewise
};

template <schedule S>
constexpr work_of_round work_in(const S& s, place at, int k) {
  work_of_round work;
  if (k >= s.rounds(at)) return work;
  for_each_message(s, at, k, set_blocks{}, [&](const message_end& m) {
    if (m.peer != at.rank) ++(m.sent ? work.sent : work.arrivals);
    if (m.sent) return;
    work.received += m.size;
    work.folds += m.folded;
  });
  return work;
}

template <schedule S>
constexpr critical_path follow(const S& s, int size) {
  critical_path path;
  for (int rank = 0; rank < size; ++rank) path.rounds = std::max(path.rounds, s.rounds({rank, size}));
  for (int k = 0; k < path.rounds; ++k) {
    work_of_round most;
    for (int rank = 0; rank < size; ++rank) {
      const work_of_round work = work_in(s, {rank, size}, k);
      path.fan_in = std::max(path.fan_in, work.arrivals);
      most.received = std::max(most.received, work.received);
      most.folds = std::max(most.folds, work.folds);
    }
    path.received += most.received;
    path.folds += most.folds;
  }
  return path;
}

/// Whether some rank receives in a round in which it sends, or in a later one: it waits for others to come as far.
template <schedule S>
constexpr bool exchanges(const S& s, int size) {
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    bool sends = false;
    for (int k = 0; k < s.rounds(at); ++k) {
      const work_of_round work = work_in(s, at, k);
      sends = sends || work.sent > 0;
      if (sends && work.arrivals > 0) return true;
    }
  }
  return false;
}

/// `critical_path` where hosts are several, by what is within a host and what goes between hosts.
struct critical_path_on_hosts {
  struct part {
    int rounds = 0;          // a round is between hosts if anything in it is
    long long messages = 0;  // of each round the most that arrive at one rank, added up
    long long blocks = 0;    // likewise; between hosts, the most that leave a host, or come to it
  };
  part within;
  part between;
  long long folds = 0;
};

template <schedule S>
constexpr critical_path_on_hosts follow(const S& s, const host_map& hosts) {
  critical_path_on_hosts path;
  const int size = hosts.ranks();
  int rounds = 0;
  for (int rank = 0; rank < size; ++rank) rounds = std::max(rounds, s.rounds({rank, size, &hosts}));
  proof_buffer<long long> crossing(2 * hosts.hosts());  // blocks that leave each host, and that come to it
  for (int k = 0; k < rounds; ++k) {
    critical_path_on_hosts most;
    for (long long& blocks : crossing) blocks = 0;
    for (int rank = 0; rank < size; ++rank) {
      const place at{rank, size, &hosts};
      if (k >= s.rounds(at)) continue;
      const int host = hosts.host(rank);
      critical_path_on_hosts mine;
      for_each_message(s, at, k, set_blocks{}, [&](const message_end& m) {
        const bool within = hosts.host(m.peer) == host;
        if (!within) crossing[2 * host + (m.sent ? 0 : 1)] += m.size;
        if (m.sent) return;
        critical_path_on_hosts::part& part = within ? mine.within : mine.between;
        if (m.peer != rank) ++part.messages;
        part.blocks += m.size;
        mine.folds += m.folded;
      });
      most.within.messages = std::max(most.within.messages, mine.within.messages);
      most.within.blocks = std::max(most.within.blocks, mine.within.blocks);
      most.between.messages = std::max(most.between.messages, mine.between.messages);
      most.folds = std::max(most.folds, mine.folds);
    }
    for (const long long blocks : crossing) most.between.blocks = std::max(most.between.blocks, blocks);
    ++(most.between.messages > 0 ? path.between : path.within).rounds;
    path.within.messages += most.within.messages;
    path.within.blocks += most.within.blocks;
    path.between.messages += most.between.messages;
    path.between.blocks += most.between.blocks;
    path.folds += most.folds;
  }
  return path;
}

}  // namespace detail

}  // namespace tutti
