// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <asio/steady_timer.hpp>

namespace tutti::detail {

/// Cancels what waits for the timer. Asio's own function throws by its declaration alone.
inline void cancel(asio::steady_timer& timer) noexcept {
  try {
    timer.cancel();
  } catch (...) {  // then it rings, and finds that nothing is to be done
  }
}

}  // namespace tutti::detail
