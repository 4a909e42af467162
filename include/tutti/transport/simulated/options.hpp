// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/network.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

/// Some messages, drawn from the seed, are held back, so that messages of other pairs overtake them.
struct held_back {
  double probability = 0;  ///< of each message, in [0, 1]
  double delay = 50e-6;    ///< seconds
};

/// A message that is lost. It counts as sent; those behind it from the same rank on the same lane never arrive either.
struct dropped_message {
  int from = 0;
  int to = 0;
  std::uint64_t message = 0;  ///< of those that `from` sends to `to`, from 0
};

/// A rank that dies in place of sending a message. What it has sent before still arrives.
struct crashed_rank {
  int rank = 0;
  std::uint64_t message = 0;  ///< of those that the rank sends to anybody, from 0
};

/// What a simulated run is like: the network, and what goes wrong on it. Equal options make equal runs, event by event.
struct simulated_options {
  /// That the network may have: a rank has never many more messages under way.
  static constexpr int most_ports = 4096;

  network net = {};        ///< what messages and folding cost, with at most `most_ports` ports
  std::uint64_t seed = 1;  ///< of all that is drawn: delays, and who goes first of those who could at the same time
  double jitter = 0;       ///< every message takes up to so many seconds longer, evenly distributed
  held_back reorder = {};  ///< some messages take much longer
  std::vector<dropped_message> drop = {};
  std::vector<crashed_rank> crash = {};
  /// How long a rank waits within one collective, in virtual time, unless it calls `comm.timeout(...)`. Zero: for
  /// ever, or a second if a message is dropped.
  std::chrono::nanoseconds timeout{0};
  bool record = false;  ///< keep the list of events
};

/// What happened to a message or a rank.
enum class simulated_event_kind : unsigned char {
  sent,       ///< `from` has handed it to the network
  delivered,  ///< `to` can take it
  dropped,    ///< it was lost
  crashed,    ///< rank `from` died
  failed,     ///< the group failed; `from` is the rank that the failure names
  left        ///< rank `from` has come to its end
};

/// One event of a simulated run. What does not apply is -1 or 0.
struct simulated_event {
  simulated_event_kind kind = simulated_event_kind::sent;
  std::int64_t picoseconds = 0;  ///< when, in virtual time
  int from = -1;
  int to = -1;
  int lane = 0;
  std::uint64_t message = 0;  ///< of those from `from` to `to`, from 0
  std::uint64_t bytes = 0;

  friend bool operator==(const simulated_event&, const simulated_event&) = default;
};

/// What a simulated run came to.
struct simulated_report {
  double makespan = 0;                       ///< seconds of virtual time until the last rank was done
  std::uint64_t messages = 0;                ///< sent
  std::uint64_t bytes = 0;                   ///< sent
  std::uint64_t trace = 0;                   ///< a hash of all events: equal runs have equal ones
  std::vector<simulated_event> events = {};  ///< if recorded
};

}  // namespace tutti
