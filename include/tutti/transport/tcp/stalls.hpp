// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/owned_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// Finds data connections that swallow what is written to them, while nothing says that they are broken: the peer has
/// written more than has come, this rank reads all that comes, and for so long as `limit` that was nothing. A rank that
/// computes, or one that is asked to pause, writes nothing, so there is nothing to miss; on a slow way something comes.
///
/// On the thread of the rank, while it waits. Knows neither sockets nor the clock.
class tcp_stalls {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class finding {
    nothing,
    unknown,  ///< the peer is to be asked how much it has written; told once, until something comes
    lost
  };

  tcp_stalls(int size, std::chrono::nanoseconds limit)
      : limit_(limit),
        step_(std::max(limit / 16, std::chrono::nanoseconds(1'000'000))),
        of_(static_cast<std::size_t>(size < 1 ? 1 : size), "what ranks wait for") {}

  /// How often it looks at most.
  std::chrono::nanoseconds step() const { return step_; }

  /// Whether it is time to look at all connections.
  bool due(time_point now) {
    if (now < next_) return false;
    // Who has not looked for long, since it was stopped or had other things to do, cannot say what has not come.
    if (now - last_ > limit_ / 2) attentive_since_ = now;
    last_ = now;
    next_ = now + step_;
    return true;
  }

  /// A look at one: whether this rank waits for bytes of the peer, how many have come, up to now, and how many the peer
  /// has said that it has written, since when this is known.
  finding look(int peer, bool misses, std::uint64_t received, std::uint64_t written, time_point known_since,
               time_point now) {
    state& s = of_[static_cast<std::size_t>(peer)];
    if (!misses || !s.misses || s.received != received) {
      s = {misses, false, received, now};
      return finding::nothing;
    }
    if (written > received) {
      const time_point since = std::max({s.since, known_since, attentive_since_});
      return now - since >= limit_ ? finding::lost : finding::nothing;
    }
    if (s.asked) return finding::nothing;
    s.asked = true;
    return finding::unknown;
  }

 private:
  struct state {
    bool misses = false;
    bool asked = false;
    std::uint64_t received = 0;
    time_point since{};  // it misses something, and so many have come
  };

  std::chrono::nanoseconds limit_;
  std::chrono::nanoseconds step_;
  time_point last_{};
  time_point next_{};
  time_point attentive_since_{};
  owned_array<state> of_;
};

}  // namespace tutti::detail
