// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/tcp/host.hpp>

#include <chrono>
#include <cstdint>

namespace tutti::detail {

/// Pauses between attempts: from one millisecond, doubled each time up to 256, each shortened by a random part so that
/// ranks that began together do not come together.
class retry_pauses {
 public:
  retry_pauses() { fill_with_random_bits(&state_, sizeof state_); }

  std::chrono::nanoseconds next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto part = static_cast<std::int64_t>(state_ >> 54);  // below 1024
    const std::chrono::nanoseconds pause = span_ / 2 + span_ * part / 2048;
    if (span_ < std::chrono::milliseconds(256)) span_ *= 2;
    return pause;
  }

 private:
  std::uint64_t state_ = 0;
  std::chrono::nanoseconds span_ = std::chrono::milliseconds(1);
};

}  // namespace tutti::detail
