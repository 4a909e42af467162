// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <atomic>

namespace tutti::detail {

/// When a rank has left a group. Where an exception passes it is not said for a second: if that ends the rank's
/// function, the others shall rather hear of that. Any thread may ask, and any process of the host.
class departure {
 public:
  void leave(bool by_exception) noexcept {
    const auto when = clock::now() + (by_exception ? longest_unwinding : std::chrono::nanoseconds(0));
    when_.store(when.time_since_epoch().count(), std::memory_order_release);
  }
  bool over() const noexcept {
    const clock::rep when = when_.load(std::memory_order_acquire);
    return when != 0 && clock::now().time_since_epoch().count() >= when;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds longest_unwinding = std::chrono::seconds(1);

  std::atomic<clock::rep> when_{0};
};

}  // namespace tutti::detail
