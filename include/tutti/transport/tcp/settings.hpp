// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/transport/tcp/handshake.hpp>

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// What no user sets, but a test may.
struct tcp_settings {
  std::uint32_t version = tcp_version;
  std::uint64_t layout = tcp_layout;
  std::uint32_t byte_order = native_byte_order;
  /// How long a connection may take to say who it is.
  std::chrono::milliseconds handshake_limit{2'000};
  /// Connections that have not said it; one more drops the oldest.
  std::size_t most_pending = 64;
  /// How long rank 0 stays to tell the ranks still to come that the start has failed.
  std::chrono::milliseconds farewell{400};
  /// How long a rank whose options are wrong tries to tell rank 0.
  std::chrono::milliseconds last_words{1'000};
  /// How long rank 0 waits for a rank to come again that it has answered, and that has gone before it said where it
  /// listens: it may have given up that attempt, and be at the next one. Longer than any of them takes.
  std::chrono::milliseconds again{10'000};
  /// How long an attempt to connect may go without an answer before another is made: the system's own attempts come at
  /// longer and longer intervals where a listener is crowded, for all who wait at the same time. Doubled each time.
  std::chrono::milliseconds patience{250};
  /// Connections that the system keeps until they are let in; it may keep fewer.
  int backlog = 4'096;
};

}  // namespace tutti::detail
