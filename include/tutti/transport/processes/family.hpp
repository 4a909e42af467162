// SPDX-License-Identifier: BSL-1.0
#pragma once

// What one process knows of a whole and of all groups that were made of it.

#include <tutti/core/call.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/owned_memory.hpp>
#include <tutti/transport/fork_guard.hpp>
#include <tutti/transport/processes/liveness.hpp>
#include <tutti/transport/processes/segment.hpp>
#include <tutti/transport/processes/shared_heap.hpp>
#include <tutti/transport/processes/shared_state.hpp>
#include <tutti/transport/processes/shared_texts.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace tutti::detail {

class processes_group;

/// It lasts as long as any of the groups does in this process.
class processes_family {
 public:
  processes_family(segment shared, std::uint64_t head_place)
      : heap(shared_heap::create(std::move(shared))),
        memory(heap->memory()),
        head(memory.object<shared_head>(head_place)),
        ranks(memory.object<shared_rank>(head->states)),
        dead_(static_cast<std::size_t>(head->size)),
        watched_(static_cast<std::size_t>(head->size)),
        watch_(head->size) {}

  /// Where the other processes find the name of a call, and that of a file.
  std::uint64_t place_of(const call_signature* signature) {
    return signatures_.find(signature, [&] { return shared_signature::write(memory, *signature); });
  }
  std::uint64_t place_of(const char* file) {
    return files_.find(file, [&] { return write_text(memory, file); });
  }

  /// Calls `found(rank)` for each rank of the whole whose process has ended since the last time, and that had not left.
  template <class Found>
  void look_for_dead(int own, Found&& found) {
    TUTTI_FAULT_POINT("group.look_for_dead");
    if (watched_count_ < head->size - 1) watch_attached(own);
    for (int gone = watch_.first_gone(); gone >= 0; gone = watch_.first_gone()) {
      watch_.forget(gone);
      if (ranks[gone].stage.load(std::memory_order_acquire) == rank_stage::left) continue;
      dead_[static_cast<std::size_t>(gone)].store(true, std::memory_order_relaxed);
      found(gone);
    }
  }

  /// Whether that has been found of the rank. From any thread.
  bool is_dead(int rank) const { return dead_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed); }
  /// What follows a dead rank's number in texts.
  std::string how_it_died(int rank) const {
    return message() << " (process " << ranks[rank].process.pid << ") has ended without a word";
  }

  kept<shared_heap> heap;  // and the segment
  segment& memory;
  shared_head* head;   // the whole's
  shared_rank* ranks;  // the whole's
  fork_guard guard;
  // Ends of groups went while an exception passed, and nobody knows yet how far it goes.
  bool unwinding = false;

  std::mutex mutex;   // of all that follows: another thread of this process may abort
  std::string ended;  // how this rank came to its end, if it failed; what follows its number in texts
  processes_group* whole = nullptr;
  processes_group* groups = nullptr;  // the others that this process is in, a list
  int users = 1;

 private:
  void watch_attached(int own) {
    for (int rank = 0; rank < head->size; ++rank) {
      bool& watched = watched_[static_cast<std::size_t>(rank)];
      if (rank == own || watched || ranks[rank].stage.load(std::memory_order_acquire) == rank_stage::absent) continue;
      TUTTI_FAULT_POINT("group.watch");
      watch_.watch(rank, ranks[rank].process);
      watched = true;
      ++watched_count_;
    }
  }

  few_known<const call_signature*, std::uint64_t> signatures_;
  few_known<const char*, std::uint64_t> files_;
  owned_array<std::atomic<bool>> dead_;
  owned_array<bool> watched_;
  int watched_count_ = 0;
  peer_watch watch_;
};

}  // namespace tutti::detail
