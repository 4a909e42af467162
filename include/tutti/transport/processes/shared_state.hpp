// SPDX-License-Identifier: BSL-1.0
#pragma once

// What lies in the segment for each group: the whole, or some of its ranks.

#include <tutti/core/fault_point.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/process.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/departure.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/processes/failure_record.hpp>
#include <tutti/transport/processes/piece_pool.hpp>
#include <tutti/transport/processes/segment.hpp>
#include <tutti/transport/shared_memory/channel.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace tutti::detail {

inline constexpr int most_lanes = 128;

/// A rank's way through a group. In the whole it attaches first of all, and leaves when its function has returned or
/// thrown. It leaves a subgroup when its end goes; `gone` is one that has died in it.
enum class rank_stage : std::uint32_t { absent, attached, left, gone };

/// What the others may know of one rank.
struct alignas(apart_bytes) shared_rank {
  basic_doorbell<sharers::processes> bell;  // the whole's is used in all groups
  alignas(64) std::atomic<rank_stage> stage{rank_stage::absent};
  departure unwound;  // it has left a subgroup while an exception passed
  // The last subgroup that was made here of which the rank is the first: number and place.
  std::atomic<std::uint64_t> subgroup{0};
  // In the whole only.
  std::atomic<int> next_group{1};
  process_identity process;
  std::uint64_t probe;  // the address in the rank's process of a number that is known
  basic_call_log<std::uint64_t, std::uint64_t> log;
  basic_message_log<std::uint64_t, std::uint64_t> messages;
};

/// What all ranks of a group share.
struct shared_head {
  std::int32_t size = 0;
  std::uint64_t states = 0;
  std::uint64_t notes = 0;
  failure_record failed;
  std::atomic<bool> withdrawn{false};  // some rank has withdrawn what it showed on some lane: its board says so
  std::atomic<std::uint64_t> tables[most_lanes] = {};
  // Of a subgroup: its memory, a list, and how many of its ranks have neither left nor died nor will never come.
  std::atomic<std::uint64_t> pieces{0};
  std::atomic<std::int32_t> remaining{0};
  // Of the whole.
  piece_pool pool = {};
  bool crowded = false;  // fewer processors than ranks, as its maker sees it: what ranks choose by is the same for all
};

/// Where a group's memory comes from. That of the whole lasts as long as the segment; subgroups have pieces of the
/// whole's pool, which go back together.
class group_memory {
 public:
  /// Of the whole.
  explicit group_memory(segment& memory) : memory_(&memory) {}
  /// Of a subgroup whose head is there, or will be as soon as it is taken.
  group_memory(segment& memory, piece_pool& pool, shared_head* head = nullptr)
      : memory_(&memory), pool_(&pool), head_(head) {}

  std::uint64_t take(std::size_t bytes, std::size_t alignment, const char* purpose) {
    if (pool_ == nullptr) return memory_->take(bytes, alignment, purpose);
    const std::uint64_t piece = pool_->take(*memory_, bytes, purpose);
    if (head_ != nullptr) add(piece);
    return piece;
  }

  /// A new group of so many ranks: where its head is.
  std::uint64_t make_group(int size) {
    const std::uint64_t place = take(sizeof(shared_head), 4096, "what the ranks share");
    auto* const h = new (memory_->at(place)) shared_head{};
    if (pool_ != nullptr) {
      head_ = h;
      add(place);
    }
    try {
      fill(*h, size);
    } catch (...) {
      if (pool_ != nullptr) give_back();
      throw;
    }
    return place;
  }

  // A lane's table: where the channels are, then the boards.
  static std::size_t boards_after(int size) {
    const std::size_t channels = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
    return (channels * sizeof(std::atomic<std::uint64_t>) + alignof(board) - 1) / alignof(board) * alignof(board);
  }
  std::uint64_t make_table(int size) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::uint64_t place =
        take(boards_after(size) + ranks * sizeof(board), alignof(board), "the channels of a lane");
    TUTTI_FAULT_POINT("group.table_taken");
    for (std::size_t i = 0; i < ranks * ranks; ++i)
      new (memory_->object<std::atomic<std::uint64_t>>(place) + i) std::atomic<std::uint64_t>{0};
    for (std::size_t i = 0; i < ranks; ++i) new (memory_->object<board>(place + boards_after(size)) + i) board;
    TUTTI_FAULT_POINT("group.table_made");
    return place;
  }

  /// What the place names; if nothing yet, what `make()` gives. What somebody else was faster with is kept for the next
  /// time.
  template <class Make>
  static std::uint64_t claim(std::atomic<std::uint64_t>& place, std::uint64_t& spare, Make&& make) {
    std::uint64_t there = place.load(std::memory_order_acquire);
    if (there != 0) return there;
    const std::uint64_t mine = spare != 0 ? spare : make();
    if (place.compare_exchange_strong(there, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
      spare = 0;
      return mine;
    }
    spare = mine;
    return there;
  }

  /// The subgroup's memory goes back: nobody uses any of it any more.
  void give_back() noexcept {
    std::uint64_t piece = head_->pieces.load(std::memory_order_acquire);
    while (piece != 0) {
      const std::uint64_t next = piece_pool::next_of(*memory_, piece).load(std::memory_order_relaxed);
      pool_->give_back(*memory_, piece);
      piece = next;
    }
  }

 private:
  void add(std::uint64_t piece) noexcept {
    std::uint64_t first = head_->pieces.load(std::memory_order_relaxed);
    do {
      piece_pool::next_of(*memory_, piece).store(first, std::memory_order_relaxed);
    } while (!head_->pieces.compare_exchange_weak(first, piece, std::memory_order_release));
    TUTTI_FAULT_POINT("pool.listed");
  }
  void fill(shared_head& h, int size) {
    h.size = size;
    h.remaining.store(size, std::memory_order_relaxed);
    const auto ranks = static_cast<std::size_t>(size);
    TUTTI_FAULT_POINT("group.create");
    h.states = take(ranks * sizeof(shared_rank), alignof(shared_rank), "what the ranks tell each other");
    for (std::size_t rank = 0; rank < ranks; ++rank) new (memory_->object<shared_rank>(h.states) + rank) shared_rank;
    h.notes = take((ranks + 1) * sizeof(failure_record::note), alignof(failure_record::note), "why the ranks failed");
    h.tables[0].store(make_table(size), std::memory_order_relaxed);
    TUTTI_FAULT_POINT("group.created");
  }

  segment* memory_;
  piece_pool* pool_ = nullptr;
  shared_head* head_ = nullptr;
};

}  // namespace tutti::detail
