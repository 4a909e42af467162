// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <memory>
#include <utility>

namespace tutti::detail {

/// Runs `io` until one operation has ended or time is up: the start waits for one thing after the other.
///
/// `begin(handler)` begins it: the handler takes an `asio::error_code`, and whatever else. When time is up `cancel()`
/// makes it end, and `asio::error::timed_out` is returned when it has. So what it uses may lie on the stack.
template <class Begin, class Cancel>
asio::error_code await(asio::io_context& io, std::chrono::steady_clock::time_point until, Begin&& begin,
                       Cancel&& cancel) {
  struct progress {
    bool ended = false;
    bool late = false;
    asio::error_code wrong;
  };
  const auto p = std::make_shared<progress>();
  asio::steady_timer timer(io, until);
  timer.async_wait([p](const asio::error_code& cancelled) { p->late = p->late || !cancelled; });
  begin([p](const asio::error_code& wrong, const auto&...) {
    p->ended = true;
    p->wrong = wrong;
  });
  const auto run_one = [&] {
    if (io.run_one() == 0) io.restart();
  };
  try {
    while (!p->ended && !p->late) run_one();
  } catch (...) {
    // If it was a handler of the operation that threw, it has ended without a word.
    cancel();
    while (!p->ended && io.poll_one() != 0) {
    }
    throw;
  }
  if (p->ended) return p->wrong;
  cancel();
  while (!p->ended) run_one();
  return asio::error::timed_out;
}

/// Runs `io` for that long.
inline void pause_for(asio::io_context& io, std::chrono::nanoseconds span) {
  asio::steady_timer timer(io, span);
  await(
      io, std::chrono::steady_clock::time_point::max(), [&](auto handler) { timer.async_wait(std::move(handler)); },
      [] {});
}

}  // namespace tutti::detail
