// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/host_map.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>
#include <tutti/core/set_size.hpp>
#include <tutti/schedule/proof_buffer.hpp>
#include <tutti/schedule/traffic.hpp>

#include <algorithm>
#include <cstddef>

namespace tutti {

/// What a schedule costs, counted from it: in blocks, each of n / blocks(size) bytes, or in bytes. Consecutive steps of
/// a round to the same peer in the same direction are one message.
struct schedule_cost {
  int rounds = 0;          ///< of the rank that has most
  int fan_in = 0;          ///< most messages that arrive at one rank in one round
  long long messages = 0;  ///< of all ranks
  long long busiest = 0;   ///< messages sent by the rank that sends most
  long long volume = 0;    ///< blocks or bytes sent by all ranks
  long long sent = 0;      ///< blocks or bytes sent by the rank that sends most
  long long received = 0;  ///< blocks or bytes received by the rank that receives most
  long long folds = 0;     ///< blocks or bytes folded in by the rank that folds most
  long long scratch = 0;   ///< blocks or bytes beside the vector that a round needs: for the largest message that is
                           ///< folded in, and for copies of what the round both sends and overwrites

  friend constexpr bool operator==(const schedule_cost&, const schedule_cost&) = default;
};

namespace detail {

/// What a rank both sends and overwrites in a round: the ranks' executors copy it. `S::overlapping` says whether there
/// can be any; what is folded into needs no copy, since it is folded when everything has been sent.
template <schedule S, class Measure>
class overlap_counter {
 public:
  constexpr overlap_counter(const S& s, place any, const Measure& measure)
      : schedule_{s}, measure_{measure}, blocks_{blocks_of(s, any)}, marks_(S::overlapping ? 2 * blocks_ : 0, 0) {}

  constexpr long long of_round(place at, int k) {
    long long copied = 0;
    if constexpr (S::overlapping) {
      ++round_;
      schedule_.round(at, k, [&](auto step) {
        if constexpr (is_send<decltype(step)> || is_recv<decltype(step)>) {
          constexpr int mine = is_send<decltype(step)> ? 0 : 1;
          for (int i = 0; i < step.what.count; ++i) {
            const int block = step.what.at(i, blocks_);
            if (marks_[2 * block + mine] == round_) continue;
            marks_[2 * block + mine] = round_;
            if (marks_[2 * block + 1 - mine] == round_) copied += measure_(one_block(block));
          }
        }
      });
    }
    return copied;
  }

 private:
  const S& schedule_;
  const Measure& measure_;
  int blocks_;
  int round_ = 0;
  proof_buffer<int> marks_;
};

/// Adds up what the ranks do.
class cost_tally {
 public:
  constexpr void add(const message_end& m, int rank) {
    if (m.sent) {
      ++mine_.messages;
      mine_.sent += m.size;
      return;
    }
    mine_.received += m.size;
    mine_.folds += m.folded;
    if (m.peer == rank) return;
    ++arrivals_;
    largest_ = std::max(largest_, m.folded);
  }
  constexpr void end_round(long long copied) {
    total_.fan_in = std::max(total_.fan_in, arrivals_);
    total_.scratch = std::max(total_.scratch, largest_ + copied);
    arrivals_ = 0;
    largest_ = 0;
  }
  constexpr void end_rank(int rounds) {
    total_.rounds = std::max(total_.rounds, rounds);
    total_.messages += mine_.messages;
    total_.busiest = std::max(total_.busiest, mine_.messages);
    total_.volume += mine_.sent;
    total_.sent = std::max(total_.sent, mine_.sent);
    total_.received = std::max(total_.received, mine_.received);
    total_.folds = std::max(total_.folds, mine_.folds);
    mine_ = {};
  }
  constexpr const schedule_cost& total() const { return total_; }

 private:
  schedule_cost total_;
  schedule_cost mine_;
  int arrivals_ = 0;
  long long largest_ = 0;
};

template <schedule S, class Measure>
constexpr schedule_cost count_by(const S& s, place any, const Measure& measure) {
  cost_tally tally;
  overlap_counter<S, Measure> overlap(s, any, measure);
  for (int rank = 0; rank < any.size; ++rank) {
    const place at{rank, any.size, any.hosts};
    const int rounds = s.rounds(at);
    for (int k = next_round(s, at, 0); k < rounds; k = next_round(s, at, k + 1)) {
      for_each_message(s, at, k, measure, [&](const message_end& m) { tally.add(m, rank); });
      tally.end_round(overlap.of_round(at, k));
    }
    tally.end_rank(rounds);
  }
  return tally.total();
}

struct set_blocks {
  constexpr long long operator()(block_set set) const { return set.count; }
};

struct set_bytes {
  layout of;
  TUTTI_ALWAYS_INLINE constexpr long long operator()(block_set set) const {
    return static_cast<long long>(size_of(of, set));
  }
};

}  // namespace detail

/// Counts `s` among `size` ranks, or those of the hosts, in blocks, by asking for every step of every rank.
template <schedule S>
constexpr schedule_cost count(const S& s, int size) {
  return detail::count_by(s, {0, size}, detail::set_blocks{});
}
template <schedule S>
constexpr schedule_cost count(const S& s, const host_map& hosts) {
  return detail::count_by(s, {0, hosts.ranks(), &hosts}, detail::set_blocks{});
}

/// The same in bytes, for a vector of `bytes` bytes divided as `layout` divides it.
template <schedule S>
constexpr schedule_cost count(const S& s, int size, std::size_t bytes) {
  return detail::count_by(s, {0, size}, detail::set_bytes{{bytes, s.blocks(size)}});
}
template <schedule S>
constexpr schedule_cost count(const S& s, const host_map& hosts, std::size_t bytes) {
  const place any{0, hosts.ranks(), &hosts};
  return detail::count_by(s, any, detail::set_bytes{{bytes, blocks_of(s, any)}});
}

}  // namespace tutti
