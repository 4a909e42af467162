// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/lane_channels.hpp>
#include <tutti/transport/shared_memory/shown_memory.hpp>

#include <sched.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// Shared rounds: each rank publishes once, and all who want it read it there.
template <class Group>
class lane_boards : public lane_channels<Group> {
  using channels = lane_channels<Group>;

 public:
  lane_boards(Group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : channels(group, rank, index, limit),
        boards_(group.boards(index)),
        ring_(board::used_among(group.size())),
        ended_(static_cast<std::size_t>(group.size())) {
    for (int& reader : slot_readers_) reader = -1;
    readers_.reserve(2 * static_cast<std::size_t>(group.size()));
  }

  // Shows `bytes` bytes that begin `origin` bytes into this rank's vector to one reader, or to several (-1); false
  // while there is no room.
  bool publish(int reader, const std::byte* data, std::size_t bytes, std::size_t origin, bool copy) {
    if (shared_ >= ended_by_all_ + ring_ && !make_room()) {
      this->send_waiting();
      return false;
    }
    TUTTI_FAULT_POINT("board.publish");
    slot_readers_[place_of(shared_)] = reader;
    message_slot& s = slot(rank_, shared_);
    published_ = true;
    bool to_time = false;
    if (!copy) {
      s.where = group_->where(data);
      to_time = this->is_pair() && this->to_be_timed(1 - rank_, data);
    } else if (bytes <= message_slot::inline_bytes) {
      s.hold(data, bytes);
      s.where = 0;
    } else {
      std::byte* const there = copy_area();
      TUTTI_FAULT_POINT("board.copy");
      to_time = write_shown(there, data, bytes);
      TUTTI_FAULT_POINT("board.copied");
      s.where = group_->where(there);
    }
    s.fingerprint = fingerprint_;
    s.describe(origin, !copy, false, to_time);
    TUTTI_FAULT_POINT("board.post");
    s.turn.store(static_cast<std::uint32_t>(shared_ + 1), std::memory_order_release);
    TUTTI_FAULT_POINT("board.posted");
    // Who published before without reading runs ahead of its readers: they do not look at the slot after next yet.
    if (ahead_) {
      const message_slot& later = slot(rank_, shared_ + 2);
      if (s.where == 0 && bytes > message_slot::first_line_bytes) {
        later.prefetch_to_fill();
      } else {
        prefetch_to_write(&later);
      }
    }
    return true;
  }
  void publish_to(int reader, bool copy) {
    if (!copy) readers_.push_back({reader, shared_});
    this->bell(reader).ring();
  }

  // In this round, `bytes` bytes that the peer publishes will be looked at.
  void expect(int peer, std::size_t bytes) {
    const message_slot& s = slot(peer, shared_);
    prefetch_to_read(&s);
    two_lines_ = bytes > message_slot::first_line_bytes && bytes <= message_slot::inline_bytes;
    if (two_lines_) s.prefetch_second_line();
  }

  // Where the byte `offset` of the peer's vector lies, or null while it has not published.
  const std::byte* look(int peer, std::size_t offset) {
    const message_slot& s = slot(peer, shared_);
    if (two_lines_) s.prefetch_second_line();
    if (!s.arrived(shared_ + 1)) {
      this->send_waiting();
      awaited_ = peer;
      return nullptr;
    }
    if (s.fingerprint != fingerprint_) [[unlikely]]
      this->refuse(peer, s, s.size());
    if (s.where != 0 && s.direct() && this->has_withdrawn(peer)) [[unlikely]]
      return nullptr;
    TUTTI_FAULT_POINT("board.arrived");
    if (peer != last_looked_at_) {  // a message of several steps is looked at for each
      ++looked_;
      last_looked_at_ = peer;
    }
    looked_at_direct_ |= s.direct();
    if (s.to_time()) [[unlikely]] {
      to_time_ = true;
      this->begin_timing(peer);
    }
    // A peer that waits for nobody may be ahead: its next message is on the way while this one is taken in. Where there
    // is one reader alone, to take both of its lines away before they are written costs more than is gained.
    if (!published_) {
      const message_slot& later = slot(peer, shared_ + 1);
      prefetch_to_read(&later);
      if (two_lines_ && !this->is_pair()) later.prefetch_second_line();
    }
    return (s.where == 0 ? s.payload : group_->at(s.where)) + (offset - s.size());
  }

  void claim_shared() {
    TUTTI_FAULT_POINT("board.claim");
    if (!looked_at_direct_) return;
    if constexpr (Group::waits_for_readers) {
      boards_[rank_].claimed.store(shared_ + 1, std::memory_order_relaxed);
      if (Group::fence::available()) {
        Group::fence::light();
      } else {
        boards_[rank_].claimed.exchange(shared_ + 1, std::memory_order_seq_cst);
      }
      if (group_->failed()) [[unlikely]] {
        boards_[rank_].claimed.store(0, std::memory_order_release);
        group_->check();
      }
      check_shared();
    }
  }

  void release_shared() {
    TUTTI_FAULT_POINT("board.release");
    if (std::exchange(to_time_, false)) [[unlikely]]
      this->end_timing(1 - rank_);
    if (!looked_at_direct_) return;
    if constexpr (Group::waits_for_readers) {
      boards_[rank_].claimed.store(0, std::memory_order_release);
    } else {
      group_->check_after_reading();
      check_shared();
    }
  }

  void end_shared(bool alone) {
    // A rank that has published in this round has ended all rounds before it.
    const bool exchanged = looked_ == group_->size() - 1;
    ahead_ = looked_ == 0;
    if (exchanged) ended_by_all_ = shared_;
    ++shared_;
    looked_ = 0;
    last_looked_at_ = -1;
    published_ = false;
    const bool half_a_ring = (shared_ & (ring_ / 2 - 1)) == 0;
    const bool is_awaited = std::exchange(looked_at_direct_, false) && alone;
    if (!is_awaited && !half_a_ring) return;
    TUTTI_FAULT_POINT("board.end");
    boards_[rank_].ended.store(shared_, std::memory_order_release);
    TUTTI_FAULT_POINT("board.ended");
    // Any rank may be waiting for it: those that published, and those that want to use a slot again.
    for (int rank = 0; rank < group_->size(); ++rank) this->bell(rank).ring();
  }

 protected:
  using channels::awaited_, channels::fingerprint_, channels::group_, channels::index_, channels::rank_;

  TUTTI_ALWAYS_INLINE bool boards_settled() { return readers_.empty() || settle_boards(); }

  [[gnu::noinline]] bool settle_boards() {
    TUTTI_FAULT_POINT("board.settle");
    while (!readers_.empty()) {
      const auto [reader, round] = readers_.back();
      if (round >= ended_by_all_ && boards_[reader].ended.load(std::memory_order_acquire) <= round) {
        awaited_ = reader;
        return false;
      }
      readers_.pop_back();
    }
    return true;
  }

  /// After all can know that it does so: nobody is in this rank's memory any more.
  void abandon_boards() noexcept {
    if constexpr (Group::waits_for_readers) {
      boards_[rank_].claimed.store(0, std::memory_order_release);
      for (int rank = 0; rank < group_->size(); ++rank) {
        const board& b = boards_[rank];
        while (b.claimed.load(std::memory_order_seq_cst) != 0) sched_yield();
      }
    }
    readers_.clear();
  }

 private:
  /// Whom this rank reads has not withdrawn. It has looked at all the others, or most.
  TUTTI_ALWAYS_INLINE void check_shared() {
    if (group_->any_withdrawn()) [[unlikely]]
      await_end_of_withdrawn();
  }
  [[gnu::noinline, gnu::cold]] void await_end_of_withdrawn() {
    for (int peer = 0; peer < group_->size(); ++peer) {
      if (peer == rank_ || !this->has_withdrawn(peer)) continue;
      boards_[rank_].claimed.store(0, std::memory_order_release);
      this->await_end();
    }
  }

  std::size_t place_of(std::uint64_t round) const { return static_cast<std::size_t>(round & (ring_ - 1)); }
  message_slot& slot(int rank, std::uint64_t round) { return boards_[rank].slots[place_of(round)]; }

  struct direct_reader {
    int rank;
    std::uint64_t round;
  };

  /// Whether the reader is to tell how long it takes. Where several read, each would be another case.
  bool write_shown(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (this->is_pair() && bytes >= delivery_choice::least_bytes)
      return this->write_timed_copy(1 - rank_, to, from, bytes, true);
    std::memcpy(to, from, bytes);
    return false;
  }

  /// Where a copy for this round's slot is made. All are allocated the first time.
  std::byte* copy_area() {
    if (copies_.size() == 0) [[unlikely]]
      copies_ = {*group_, ring_ * copy_stride};
    return copies_.data() + place_of(shared_) * copy_stride;
  }
  // Not a multiple of a page: a processor takes a load for one of what is being stored as far into another page, and
  // caches have few places for lines that lie alike.
  static constexpr std::size_t copy_stride = Group::shown_copy_bytes + 192;

  /// Whether all who read it have ended the round that had the next slot before. Only theirs is looked at: a counter
  /// that others read is slow to advance.
  bool make_room() {
    if (const int reader = slot_readers_[place_of(shared_)]; reader >= 0) {
      std::uint64_t& ended = ended_[static_cast<std::size_t>(reader)];
      if (shared_ < ended + ring_) return true;
      ended = boards_[reader].ended.load(std::memory_order_acquire);
      awaited_ = reader;
      return shared_ < ended + ring_;
    }
    std::uint64_t least = shared_;
    for (int rank = 0; rank < group_->size(); ++rank) {
      const std::uint64_t ended = boards_[rank].ended.load(std::memory_order_acquire);
      if (ended < least) {
        least = ended;
        awaited_ = rank;
      }
    }
    ended_by_all_ = least;
    return shared_ < ended_by_all_ + ring_;
  }

  board* boards_;
  std::uint64_t ring_;                // slots of each that are used, a power of two
  std::uint64_t shared_ = 0;          // shared rounds that this rank has ended
  std::uint64_t ended_by_all_ = 0;    // as last seen
  owned_array<std::uint64_t> ended_;  // by each rank, as last seen
  int slot_readers_[board::capacity];
  int looked_ = 0;  // at how many ranks' boards in this round
  int last_looked_at_ = -1;
  bool looked_at_direct_ = false;
  bool to_time_ = false;    // what is looked at
  bool two_lines_ = false;  // what is looked at in this round takes more than a slot's first line
  bool published_ = false;  // in this round
  bool ahead_ = false;      // it read nothing in the round before
  shown_memory<Group> copies_;
  array_list<direct_reader> readers_;
};

}  // namespace tutti::detail
