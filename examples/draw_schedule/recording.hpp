// SPDX-License-Identifier: BSL-1.0
#pragma once

// A schedule as it is drawn: all its messages, with the rounds in which they are sent and arrive.

#include <tutti/schedule/algorithms.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace drawing {

struct arrow {
  int from;
  int to;
  int sent;     // the sender's round
  int arrived;  // the receiver's round
  bool folded;  // into what the receiver has, or else stored
  std::string blocks;
};

struct recording {
  std::string algorithm;
  std::string collective;
  int ranks = 0;
  int rounds = 0;
  int blocks = 0;
  int root = -1;     // where there is one
  int segments = 0;  // where there are any
  std::vector<arrow> arrows;
};

/// "3", "3-5", "6-1" where they wrap around, "1,3..7", "all", or several of these: how a picture names blocks.
std::string names_of(std::vector<int> blocks, int of);

namespace detail {

/// What one rank sends to, or gets from, another in one round.
struct half {
  int round;
  bool folded;
  int vector;
  std::vector<int> blocks;
};

template <class Step>
void add(std::deque<half>& channel, const Step& step, int round, int blocks, bool joins_last) {
  constexpr bool folded = tutti::is_combine<Step>;
  if (!joins_last) channel.push_back({round, folded, step.vector, {}});
  for (int i = 0; i < step.what.count; ++i) channel.back().blocks.push_back(step.what.at(i, blocks));
}

}  // namespace detail

/// Follows the schedule `s` through all rounds of all ranks; messages between two ranks match in order. `hosts` may
/// tell which ranks share a host.
template <tutti::schedule S>
recording record(const S& s, int ranks, const tutti::host_map* hosts) {
  recording result;
  result.ranks = ranks;
  result.blocks = tutti::blocks_of(s, {0, ranks, hosts});
  std::map<std::pair<int, int>, std::pair<std::deque<detail::half>, std::deque<detail::half>>> channels;
  for (int rank = 0; rank < ranks; ++rank) {
    const tutti::place at{rank, ranks, hosts};
    result.rounds = std::max(result.rounds, s.rounds(at));
    for (int k = 0; k < s.rounds(at); ++k) {
      int last_peer = -1;
      bool last_sends = false;
      s.round(at, k, [&](auto step) {
        if constexpr (!tutti::is_local<decltype(step)>) {
          constexpr bool sends = tutti::is_send<decltype(step)>;
          const bool joins_last = step.peer == last_peer && sends == last_sends;
          if constexpr (sends) {
            detail::add(channels[{rank, step.peer}].first, step, k, result.blocks, joins_last);
          } else {
            detail::add(channels[{step.peer, rank}].second, step, k, result.blocks, joins_last);
          }
          last_peer = step.peer;
          last_sends = sends;
        }
      });
    }
  }
  for (const auto& [ends, halves] : channels) {
    const auto& [sent, arrived] = halves;
    for (std::size_t i = 0; i < std::min(sent.size(), arrived.size()); ++i) {
      std::string blocks = result.blocks > 1 ? names_of(sent[i].blocks, result.blocks) : "";
      // Of several vectors the others than the first are told by their number.
      if (sent[i].vector > 0) blocks += (blocks.empty() ? "v" : " v") + std::to_string(sent[i].vector);
      result.arrows.push_back(
          {ends.first, ends.second, sent[i].round, arrived[i].round, arrived[i].folded, std::move(blocks)});
    }
  }
  return result;
}

}  // namespace drawing
