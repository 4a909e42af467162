// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/round_messages.hpp>
#include <tutti/collective/step_list.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// Room for copies of what a round sends: they last until the round has settled; the next round uses the room again.
template <class T>
struct copy_room {
  T* memory = nullptr;
  std::size_t capacity = 0;
  std::size_t used = 0;

  /// Room for n elements; `least` is as much as is asked for together.
  [[gnu::noinline]] static T* take(copy_room& room, std::size_t n, std::size_t least, arena& scratch) {
    if (room.capacity - room.used < n) room = {scratch.take_for<T>(n > least ? n : least), n > least ? n : least, 0};
    T* const copy = room.memory + room.used;
    room.used += n;
    return copy;
  }
};

/// What one rank sends in a round: each step as messages, or, in a shared round, all of them as one part of its vector
/// that it shows to everybody. Makes the copies that are needed because the round writes what it sends.
///
/// Functions that are not inlined get copies of these members, never their address: then the compiler keeps the members
/// in registers and leaves out those that a schedule does not need.
template <class Storage>
class round_sends {
 public:
  using T = typename Storage::value_type;

  TUTTI_ALWAYS_INLINE void begin() {
    steps_.clear();
    copied_from_ = nullptr;
    room_.used = 0;
  }

  TUTTI_ALWAYS_INLINE void add(const send& step, arena& scratch) {
    steps_.push_back({step.peer, step.what.first, step.what.stride, step.what.count}, scratch);
  }

  template <class L>
  TUTTI_ALWAYS_INLINE void post(L& lane, Storage& storage, arena& scratch, const policy& how, bool overlapping) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const int peer = steps_.template get<&listed_step::peer>(i);
      const block_set what = blocks_of(steps_, i);
      const int count = messages(storage, how, what);
      for (int m = 0; m < count; ++m)
        post(lane, storage, scratch, how, overlapping, peer, message_blocks(storage, what, m, count));
    }
  }

  /// Shows all readers of this round the part of the vector that they read. False while there is no room.
  template <class L>
  TUTTI_ALWAYS_INLINE bool publish(L& lane, Storage& storage, arena& scratch, const policy& how, bool overlapping) {
    if (steps_.size() == 0) return true;
    // The part of the vector from the first to the last element that anyone reads, and whether it lies in one piece.
    const int some = blocks_of(steps_, 0).at(0, storage.blocks());
    const T* const known = storage.source(some);
    const std::size_t known_offset = storage.offset(some);
    std::size_t begin = storage.count();
    std::size_t end = 0;
    bool in_one_piece = true;
    bool writable = false;
    int seen = -1;
    for (std::size_t i = 0; i < (Storage::whole ? 1 : steps_.size()); ++i) {
      const block_set set = blocks_of(steps_, i);
      for (int j = 0; j < (Storage::whole ? 1 : set.count); ++j) {
        const int block = set.at(j, storage.blocks());
        if (block == seen) continue;
        seen = block;
        const std::size_t offset = storage.offset(block);
        const std::size_t size = storage.size(block);
        begin = offset < begin ? offset : begin;
        end = offset + size > end ? offset + size : end;
        writable |= storage.writable(block);
        in_one_piece &= address(storage.source(block)) - address(known) == (offset - known_offset) * sizeof(T);
      }
    }
    const std::size_t bytes = (end - begin) * sizeof(T);
    const bool copied = bytes <= how.copy_bytes;
    const T* data = known + (static_cast<std::ptrdiff_t>(begin) - static_cast<std::ptrdiff_t>(known_offset));
    if (!in_one_piece || (overlapping && writable && !copied)) {
      if (room_.used == 0) copy_published(storage, steps_, take_copy(storage, end - begin, scratch), begin);
      data = room_.memory;
      writable = true;
    }
    const int reader = steps_.size() == 1 ? steps_.template get<&listed_step::peer>(0) : -1;
    if (!lane.publish(reader, reinterpret_cast<const std::byte*>(data), bytes, begin * sizeof(T), copied)) return false;
    must_settle_ |= writable && !copied;
    for (std::size_t i = 0; i < steps_.size(); ++i) lane.publish_to(steps_.template get<&listed_step::peer>(i), copied);
    return true;
  }

  /// Whether memory that a later round writes is being read by others.
  bool must_settle() const { return must_settle_; }
  void settled() { must_settle_ = false; }

 private:
  static std::uintptr_t address(const T* element) { return reinterpret_cast<std::uintptr_t>(element); }

  template <class L>
  TUTTI_ALWAYS_INLINE void post(L& lane, Storage& storage, arena& scratch, const policy& how, bool overlapping,
                                int peer, const block_set& set) {
    const int first = set.at(0, storage.blocks());
    const T* data = storage.source(first);
    bool writable = storage.writable(first);
    bool contiguous = true;
    std::size_t n = storage.size(first);
    for (int i = 1; !Storage::whole && i < set.count; ++i) {
      const int block = set.at(i, storage.blocks());
      contiguous &= storage.source(block) == data + n;
      writable |= storage.writable(block);
      n += storage.size(block);
    }
    const std::size_t bytes = n * sizeof(T);
    const bool buffered = bytes <= how.copy_bytes;
    if (!contiguous) [[unlikely]] {
      data = gather(storage, set, take_copy(storage, n, scratch));
      writable = true;
    } else if (overlapping && writable && !buffered) {
      // This round overwrites what it sends: send a copy, the same one to all peers.
      if (copied_from_ != data || copied_ != n) {
        T* const copy = take_copy(storage, n, scratch);
        copy_elements(copy, data, n, false);
        copied_from_ = data;
        copied_ = n;
        copy_ = copy;
      }
      data = copy_;
    }
    const bool copied = lane.send(peer, reinterpret_cast<const std::byte*>(data), bytes, buffered);
    must_settle_ |= writable && !copied;
  }

  TUTTI_ALWAYS_INLINE T* take_copy(const Storage& storage, std::size_t n, arena& scratch) {
    copy_room<T> room = room_;
    T* const copy = copy_room<T>::take(room, n, storage.elements(all_blocks(storage.blocks())), scratch);
    room_ = room;
    return copy;
  }

  [[gnu::noinline]] static const T* gather(Storage storage, block_set set, T* packed) {
    T* to = packed;
    for (int i = 0; i < set.count; ++i) {
      const int block = set.at(i, storage.blocks());
      copy_elements(to, storage.source(block), storage.size(block), false);
      to += storage.size(block);
    }
    return packed;
  }

  /// Copies what readers see of the vector from element `begin` on.
  [[gnu::noinline]] static void copy_published(Storage storage, step_list<listed_step> steps, T* copy,
                                               std::size_t begin) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const block_set set = blocks_of(steps, i);
      if (i != 0 && set == blocks_of(steps, i - 1)) continue;  // all read the same
      for (int j = 0; j < set.count; ++j) {
        const int block = set.at(j, storage.blocks());
        copy_elements(copy + (storage.offset(block) - begin), storage.source(block), storage.size(block), false);
      }
    }
  }

  step_list<listed_step> steps_;
  bool must_settle_ = false;
  const T* copied_from_ = nullptr;
  std::size_t copied_ = 0;
  const T* copy_ = nullptr;
  copy_room<T> room_;
};

}  // namespace tutti::detail
