// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/simulated/message_queue.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

class simulated_part;

/// One rank's end of a lane: which call it carries, how far it is, and what is on its way to it.
struct lane_end {
  lane_end(simulated_part& p, int rank_in_part, int lane, int ranks)
      : part(&p), rank(rank_in_part), index(lane), from(static_cast<std::size_t>(ranks)) {}
  lane_end(const lane_end&) = delete;
  lane_end& operator=(const lane_end&) = delete;

  message_queue& queue(int peer) { return from[static_cast<std::size_t>(peer)]; }
  waiting_place place() const { return {rank, awaited, round, during}; }
  int awaited_in_whole() const;
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

  simulated_part* part;
  int rank;  // in the part, as are those of peers
  int index;
  owned_array<message_queue> from;
  array_list<simulated_message*> leaving;  // those that lie in the caller's memory
  call during;
  std::uint64_t fingerprint = 0;
  int round = -1;
  int awaited = -1;              // whom the last look in vain was for
  virtual_time started = never;  // when the first look in vain was
};

}  // namespace tutti::detail
