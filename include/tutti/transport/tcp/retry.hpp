// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/transport/tcp/host.hpp>

#include <cstdint>
#include <utility>

namespace tutti::detail {

/// When to try again, and how long an attempt may take, each shortened by a random part, up to the half of it: ranks
/// that began together shall not come together.
class retry_times {
 public:
  /// Pauses begin with one millisecond, and are doubled each time up to 256; attempts begin with `patience`, up to 32
  /// times that.
  explicit retry_times(std::chrono::milliseconds patience) : attempt_(patience), most_(32 * patience) {
    fill_with_random_bits(&state_, sizeof state_);
  }
  std::chrono::nanoseconds pause() {
    return shortened(std::exchange(pause_, pause_ < longest_pause ? 2 * pause_ : pause_));
  }
  std::chrono::nanoseconds attempt() {
    return shortened(std::exchange(attempt_, attempt_ < most_ ? 2 * attempt_ : attempt_));
  }

 private:
  static constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(256);

  std::chrono::nanoseconds shortened(std::chrono::nanoseconds span) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto part = static_cast<std::int64_t>(state_ >> 54);  // below 1024
    return span / 2 + span * part / 2048;
  }

  std::uint64_t state_ = 0;
  std::chrono::nanoseconds pause_ = std::chrono::milliseconds(1);
  std::chrono::nanoseconds attempt_;
  std::chrono::nanoseconds most_;
};

}  // namespace tutti::detail
