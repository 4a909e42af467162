// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/simulated/message_queue.hpp>
#include <tutti/transport/simulated/turn.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// One rank's end of a lane: which call it carries, how far it is, and what is on its way to it.
struct lane_end {
  explicit lane_end(int ranks) : from(static_cast<std::size_t>(ranks)) {}

  message_queue& queue(int peer) { return from[static_cast<std::size_t>(peer)]; }
  waiting_place place(int rank) const { return {rank, awaited, round, during}; }
  /// What the last look in vain was for, if it was lost.
  const simulated_message* lost() const {
    const simulated_message* const m = awaited < 0 ? nullptr : from[static_cast<std::size_t>(awaited)].front();
    return m != nullptr && m->dropped ? m : nullptr;
  }
  /// What has not left yet is sent from a copy: the memory it lies in is the caller's again.
  void take_bytes() {
    for (simulated_message* const m : leaving)
      if (m->source != nullptr) m->take_bytes();
    leaving.clear();
  }
  /// The same where the group has failed: what there is no memory to copy does not arrive.
  void drop_bytes() noexcept {
    for (simulated_message* const m : leaving) {
      try {
        if (m->source != nullptr) m->take_bytes();
      } catch (...) {
        m->source = nullptr;
        m->dropped = true;
      }
    }
    leaving.clear();
  }
  /// When the last of them has left, 0 if all have.
  virtual_time all_left() const {
    virtual_time last = 0;
    for (const simulated_message* const m : leaving) last = later(last, m->leaves);
    return last;
  }

  owned_array<message_queue> from;
  array_list<simulated_message*> leaving;  // those that lie in the caller's memory
  call during;
  std::uint64_t fingerprint = 0;
  int round = -1;
  int awaited = -1;              // whom the last look in vain was for
  virtual_time started = never;  // when the first look in vain was
};

enum class standing : unsigned char {
  ready,    ///< goes on when the time is its clock's
  waiting,  ///< until something is delivered to it, or its deadline passes
  left      ///< its function has returned or thrown
};

/// One rank, seen by the others only while it waits for its turn.
struct simulated_rank {
  simulated_rank() = default;
  simulated_rank(const simulated_rank&) = delete;
  simulated_rank& operator=(const simulated_rank&) = delete;
  ~simulated_rank() {
    for (lane_end* const lane : lanes) delete lane;
  }

  turn go;
  virtual_time clock = 0;
  standing state = standing::ready;
  virtual_time deadline = never;
  bool news = false;  // something that it waits for has been delivered since it last waited
  bool came = false;  // its thread has begun
  bool crashed = false;
  lane_end* looks_at = nullptr;  // where it looked last in vain
  std::uint64_t sent = 0;        // messages
  std::uint64_t under_way = 0;   // of those, not delivered yet
  std::uint64_t looks = 0;       // in vain, since anything else happened
  std::uint64_t looked = 0;      // what had happened when it looked
  call_log log;
  message_log messages;
  array_list<lane_end*> lanes;
};

}  // namespace tutti::detail
