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
  [[gnu::noinline]] T* take(std::size_t n, std::size_t least, arena& scratch) {
    if (capacity - used < n) {
      capacity = n > least ? n : least;
      memory = scratch.take_for<T>(capacity);
      used = 0;
    }
    T* const copy = memory + used;
    used += n;
    return copy;
  }
};

/// The copies that a round has made of what it sends, because it writes that.
template <class T>
struct send_copies {
  const T* copied_from = nullptr;
  std::size_t copied = 0;
  const T* copy = nullptr;
  copy_room<T> room;
};

/// What one rank sends in a round: each step as messages, or, in a shared round, all of them as one part of its vector
/// that it shows to everybody.
///
/// One step is done in the verb, several by functions that the schedules share. These are never told where the members
/// are, nor given copies: so the compiler keeps the members in registers, and nothing that was just written in parts is
/// read whole, which would wait for all stores.
template <class Storage>
class round_sends {
 public:
  using T = typename Storage::value_type;
  using copies = send_copies<T>;

  TUTTI_ALWAYS_INLINE void begin(copies& made) {
    steps_.clear();
    made.copied_from = nullptr;
    made.room.used = 0;
  }

  TUTTI_ALWAYS_INLINE void add(int peer, const block_set& what, arena& scratch) {
    steps_.push_back({peer, what.first, what.stride, what.count}, scratch);
  }

  template <class L>
  TUTTI_ALWAYS_INLINE void post(L& lane, Storage& storage, copies& made, arena& scratch, const policy& how,
                                bool overlapping) {
    if (steps_.size() == 1) {
      must_settle_ |= post_step(lane, storage, made, scratch, how, overlapping, only_step(steps_));
    } else if (steps_.size() > 1) {
      must_settle_ |= post_several(lane, storage, made, scratch, how, overlapping, steps_.entries(), steps_.size());
    }
  }

  /// Shows all readers of this round the part of the vector that they read. False while there is no room.
  template <class L>
  TUTTI_ALWAYS_INLINE bool publish(L& lane, Storage& storage, copies& made, arena& scratch, const policy& how,
                                   bool overlapping) {
    if (steps_.size() == 0) return true;
    publication result;
    if (steps_.size() == 1) {
      const listed_step only = only_step(steps_);
      result = publish_steps(lane, storage, made, scratch, how, overlapping, &only, 1);
    } else {
      result = publish_several(lane, storage, made, scratch, how, overlapping, steps_.entries(), steps_.size());
    }
    must_settle_ |= result == publication::to_be_settled;
    return result != publication::no_room;
  }

  /// Whether memory that a later round writes is being read by others.
  bool must_settle() const { return must_settle_; }
  void settled() { must_settle_ = false; }

 private:
  enum class publication : unsigned char { no_room, done, to_be_settled };

  /// Whether it must be settled before what is sent is written.
  template <class L>
  TUTTI_ALWAYS_INLINE static bool post_step(L& lane, Storage& storage, copies& made, arena& scratch, const policy& how,
                                            bool overlapping, const listed_step& step) {
    const step_messages<L, Storage> parts(lane, storage, how, step.what());
    bool must_settle = false;
    for (int m = 0; m < parts.count(); ++m)
      must_settle |= post_part(lane, storage, made, scratch, how, overlapping, parts[m], step.peer);
    return must_settle;
  }
  template <class L>
  TUTTI_ALWAYS_INLINE static bool post_part(L& lane, Storage& storage, copies& made, arena& scratch, const policy& how,
                                            bool overlapping, const message_part& part, int peer) {
    if (part.piece && part.size == 0 && part.begin != 0) return false;
    const block_set set = part.set;
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
    if (part.piece) {
      data += part.begin;
      n = part.size;
    }
    const std::size_t bytes = n * sizeof(T);
    const bool buffered = bytes <= how.copy_bytes;
    if (!contiguous) [[unlikely]] {
      data = gather(storage, set, take_copy(storage, made, n, scratch));
      writable = true;
    } else if (overlapping && writable && !buffered) {
      // This round overwrites what it sends: send a copy, the same one to all peers.
      if (made.copied_from != data || made.copied != n) {
        T* const copy = take_copy(storage, made, n, scratch);
        write_copy(lane, peer, copy, data, n);
        made.copied_from = data;
        made.copied = n;
        made.copy = copy;
      }
      data = made.copy;
    }
    const bool copied = lane.send(peer, reinterpret_cast<const std::byte*>(data), bytes, buffered);
    return writable && !copied;
  }

  template <class L>
  [[gnu::noinline]] static bool post_several(L& lane, Storage& storage, copies& made, arena& scratch, const policy& how,
                                             bool overlapping, const listed_step* steps, std::size_t size) {
    bool must_settle = false;
    for (std::size_t i = 0; i < size;) {
      const block_set what = steps[i].what();
      std::size_t end = i + 1;
      while (end < size && steps[end].what() == what) ++end;
      // Who get the same get each piece of it at once, so that one copy can serve them all.
      const step_messages<L, Storage> parts(lane, storage, how, what);
      for (int m = 0; m < parts.count(); ++m)
        for (std::size_t j = i; j < end; ++j)
          must_settle |= post_part(lane, storage, made, scratch, how, overlapping, parts[m], steps[j].peer);
      i = end;
    }
    return must_settle;
  }

  template <class L>
  TUTTI_ALWAYS_INLINE static publication publish_steps(L& lane, Storage& storage, copies& made, arena& scratch,
                                                       const policy& how, bool overlapping, const listed_step* steps,
                                                       std::size_t size) {
    // The part of the vector from the first to the last element that anyone reads, and whether it lies in one piece.
    const int some = steps[0].what().at(0, storage.blocks());
    const T* const known = storage.source(some);
    const std::size_t known_offset = storage.offset(some);
    std::size_t begin = storage.count();
    std::size_t end = 0;
    bool in_one_piece = true;
    bool writable = false;
    int seen = -1;
    for (std::size_t i = 0; i < (Storage::whole ? 1 : size); ++i) {
      const block_set set = steps[i].what();
      for (int j = 0; j < (Storage::whole ? 1 : set.count); ++j) {
        const int block = set.at(j, storage.blocks());
        if (block == seen) continue;
        seen = block;
        const std::size_t offset = storage.offset(block);
        const std::size_t elements = storage.size(block);
        begin = offset < begin ? offset : begin;
        end = offset + elements > end ? offset + elements : end;
        writable |= storage.writable(block);
        in_one_piece &= address(storage.source(block)) - address(known) == (offset - known_offset) * sizeof(T);
      }
    }
    const std::size_t bytes = (end - begin) * sizeof(T);
    const T* data = known + (static_cast<std::ptrdiff_t>(begin) - static_cast<std::ptrdiff_t>(known_offset));
    bool copied = bytes <= how.copy_bytes || (in_one_piece && !shows(lane, data, bytes));
    if (!in_one_piece || (overlapping && writable && !copied)) {
      if (made.room.used == 0)
        copy_published(storage, steps, size, take_copy(storage, made, end - begin, scratch), begin);
      data = made.room.memory;
      writable = true;
      copied = bytes <= how.copy_bytes || !shows(lane, data, bytes);
    }
    if (!lane.publish(size == 1 ? steps[0].peer : -1, reinterpret_cast<const std::byte*>(data), bytes,
                      begin * sizeof(T), copied))
      return publication::no_room;
    for (std::size_t i = 0; i < size; ++i) lane.publish_to(steps[i].peer, copied);
    return writable && !copied ? publication::to_be_settled : publication::done;
  }

  template <class L>
  [[gnu::noinline]] static publication publish_several(L& lane, Storage& storage, copies& made, arena& scratch,
                                                       const policy& how, bool overlapping, const listed_step* steps,
                                                       std::size_t size) {
    return publish_steps(lane, storage, made, scratch, how, overlapping, steps, size);
  }

  template <class L>
  static void write_copy([[maybe_unused]] L& lane, [[maybe_unused]] int peer, T* to, const T* from, std::size_t n) {
    if constexpr (writing_lane<L>) {
      lane.write_copy(peer, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), n * sizeof(T));
    } else {
      copy_elements(to, from, n, false);
    }
  }

  /// Whether readers can read the bytes where they are.
  template <class L>
  static bool shows(const L& lane, const T* data, std::size_t bytes) {
    return lane.shows(reinterpret_cast<const std::byte*>(data), bytes);
  }
  static std::uintptr_t address(const T* element) { return reinterpret_cast<std::uintptr_t>(element); }

  TUTTI_ALWAYS_INLINE static T* take_copy(const Storage& storage, copies& made, std::size_t n, arena& scratch) {
    return made.room.take(n, storage.elements(all_blocks(storage.blocks())), scratch);
  }

  [[gnu::noinline]] static const T* gather(Storage& storage, const block_set& set, T* packed) {
    T* to = packed;
    for (int i = 0; i < set.count; ++i) {
      const int block = set.at(i, storage.blocks());
      copy_elements(to, storage.source(block), storage.size(block), false);
      to += storage.size(block);
    }
    return packed;
  }

  /// Copies what readers see of the vector from element `begin` on.
  [[gnu::noinline]] static void copy_published(Storage& storage, const listed_step* steps, std::size_t size, T* copy,
                                               std::size_t begin) {
    for (std::size_t i = 0; i < size; ++i) {
      const block_set set = steps[i].what();
      if (i != 0 && set == steps[i - 1].what()) continue;  // all read the same
      for (int j = 0; j < set.count; ++j) {
        const int block = set.at(j, storage.blocks());
        copy_elements(copy + (storage.offset(block) - begin), storage.source(block), storage.size(block), false);
      }
    }
  }

  step_list<listed_step> steps_;
  bool must_settle_ = false;
};

}  // namespace tutti::detail
