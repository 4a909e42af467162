// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

#include <algorithm>

namespace tutti {

/// What a schedule costs, counted from it. Blocks are of n / blocks(size) bytes each, of the vector that the schedule
/// divides.
struct schedule_cost {
  int rounds = 0;          ///< of the rank that has most
  int fan_in = 0;          ///< most messages that arrive at one rank in one round
  long long messages = 0;  ///< of all ranks
  long long volume = 0;    ///< blocks sent by all ranks
  long long sent = 0;      ///< blocks sent by the rank that sends most
  long long received = 0;  ///< blocks received by the rank that receives most
  long long folds = 0;     ///< blocks folded in by the rank that folds most

  friend constexpr bool operator==(const schedule_cost&, const schedule_cost&) = default;
};

/// Counts `s` among `size` ranks by asking for every step of every rank.
template <schedule S>
constexpr schedule_cost count(const S& s, int size) {
  schedule_cost total;
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    const int rounds = s.rounds(at);
    long long sent = 0;
    long long received = 0;
    long long folds = 0;
    for (int k = 0; k < rounds; ++k) {
      int arrivals = 0;
      s.round(at, k, [&](auto step) {
        if constexpr (is_send<decltype(step)>) {
          ++total.messages;
          sent += step.what.count;
        } else if constexpr (is_local<decltype(step)>) {
          folds += step.what.count;
        } else {
          ++arrivals;
          received += step.what.count;
          if constexpr (is_combine<decltype(step)>) folds += step.what.count;
        }
      });
      total.fan_in = std::max(total.fan_in, arrivals);
    }
    total.rounds = std::max(total.rounds, rounds);
    total.volume += sent;
    total.sent = std::max(total.sent, sent);
    total.received = std::max(total.received, received);
    total.folds = std::max(total.folds, folds);
  }
  return total;
}

}  // namespace tutti
