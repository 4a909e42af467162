// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <cstddef>

namespace tutti::detail {

/// How one rank moves data and waits.
struct tcp_tuning {
  /// How long a rank polls before it sleeps.
  std::chrono::nanoseconds busy_poll{0};
  /// More ranks on this host than processors: who waits gives way at once.
  bool crowded = true;
  /// Messages of more bytes are cut, if they have more than one element. The same on every rank. Two ranks that write
  /// so much each before they read keep out of each other's socket: allreduce of 2 to 16 MiB took 5 to 35 % less time
  /// than with 256 KiB.
  std::size_t piece_bytes = std::size_t{1} << 20;
  /// At most in one system call: a whole piece with its header.
  std::size_t call_bytes = std::size_t{2} << 20;
  /// What the system is asked to hold of what a rank sends to another of this host; it takes the double. 0: as it
  /// likes.
  std::size_t local_queue_bytes = 0;
  /// What may be kept of one lane and peer before it is received; then the peer is asked to pause, after what it has
  /// begun: a piece that comes early holds the next one back.
  std::size_t kept_bytes = std::size_t{512} << 10;
  /// How long what a rank sent before it left may still be on its way.
  std::chrono::milliseconds grace{1'000};

  /// How long a rank sleeps that nothing wakes.
  std::chrono::nanoseconds longest_nap = std::chrono::milliseconds(1'000);

  /// For so many ranks on this host and so many processors for them. `asked` is how long to poll; negative: as suits
  /// the numbers.
  static constexpr tcp_tuning for_host(int ranks, int processors, std::chrono::microseconds asked) {
    tcp_tuning made;
    constexpr std::chrono::microseconds most = std::chrono::hours(24 * 365 * 10);
    made.crowded = ranks > processors;
    // Who takes turns finds in the cache what has just been written, if it is not more: among 4 ranks on 2 processors
    // allreduce of 4 to 16 MiB took a sixth less time, and with a third of this 2 MiB took a tenth more. With a
    // processor each, a longer queue lets both go on.
    if (made.crowded) made.local_queue_bytes = std::size_t{384} << 10;
    made.busy_poll = asked.count() >= 0 ? std::chrono::nanoseconds(asked < most ? asked : most)
                     : made.crowded     ? std::chrono::nanoseconds(0)
                                        : std::chrono::nanoseconds(std::chrono::milliseconds(8));
    return made;
  }
};

}  // namespace tutti::detail
