// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>
#include <tutti/core/wait.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

template <std::size_t Size>
TUTTI_ALWAYS_INLINE inline void move_two(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::byte first[Size];
  std::byte last[Size];
  std::memcpy(first, from, Size);
  std::memcpy(last, from + (bytes - Size), Size);
  std::memcpy(to, first, Size);
  std::memcpy(to + (bytes - Size), last, Size);
}
/// Copies by two moves of one size that may overlap, of the least that will do: a call of memcpy takes longer.
TUTTI_ALWAYS_INLINE inline void copy_up_to_64(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 32) {
    move_two<32>(to, from, bytes);
  } else if (bytes > 16) {
    move_two<16>(to, from, bytes);
  } else if (bytes > 8) {
    move_two<8>(to, from, bytes);
  } else if (bytes >= 4) {
    move_two<4>(to, from, bytes);
  } else {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

/// One message: 32 bytes of description, and room for a small message whole, so that an 8-byte message costs the
/// transfer of one cache line. Two lines long, since processors fetch lines in pairs.
struct alignas(128) message_slot {
  static constexpr std::size_t inline_bytes = 96;
  static constexpr std::size_t first_line_bytes = 32;

  std::atomic<std::uint32_t> turn{0};  // number of the message in the slot, from 1; written last
  std::uint32_t consumed = 0;          // low bits of how many messages of the receiver the sender has consumed
  std::uint64_t fingerprint = 0;
  std::uint64_t extent = 0;  // see describe(); written whole: to read it first would wait for the line
  std::uint64_t where = 0;   // 0: the bytes are in `payload`; else as the group tells places in memory
  std::byte payload[inline_bytes] = {};

  /// Bytes, or on a board where in the vector they begin; whether they lie in the sender's own memory, not in a copy;
  /// whether that is memory of the sender's process, which the receiver asks the kernel for; and whether the receiver
  /// is to tell how long it took.
  void describe(std::uint64_t size, bool direct, bool remote = false, bool to_time = false) {
    extent = size << 3 | (direct ? 1 : 0) | (remote ? 2 : 0) | (to_time ? 4 : 0);
  }
  std::uint64_t size() const { return extent >> 3; }
  bool direct() const { return (extent & 1) != 0; }
  bool remote() const { return (extent & 2) != 0; }
  bool to_time() const { return (extent & 4) != 0; }
  /// Puts up to `inline_bytes` bytes into the slot, its second line first: whoever polls the first takes it away from
  /// this processor, and all that is written there after waits for the second.
  TUTTI_ALWAYS_INLINE void hold(const std::byte* data, std::size_t bytes) {
    if (bytes == 8) {
      std::memcpy(payload, data, 8);
    } else if (bytes > first_line_bytes) {
      copy_up_to_64(payload + first_line_bytes, data + first_line_bytes, bytes - first_line_bytes);
      std::atomic_signal_fence(std::memory_order_release);
      std::memcpy(payload, data, first_line_bytes);
    } else {
      copy_up_to_64(payload, data, bytes);
    }
  }
  void prefetch_second_line() const { prefetch_to_read(payload + first_line_bytes); }
  void prefetch_to_fill() const {
    prefetch_to_write(payload + first_line_bytes);
    prefetch_to_write(this);
  }
  bool arrived(std::uint64_t number) const {
    return turn.load(std::memory_order_acquire) == static_cast<std::uint32_t>(number);
  }
};
static_assert(sizeof(message_slot) == 128);

/// What one rank sends to one other on one lane: a ring of slots with a single producer and a single consumer.
struct channel {
  static constexpr std::uint64_t capacity = 8;

  message_slot slots[capacity];
  // Written by the receiver only. `claimed > consumed` while it reads memory of the sender.
  alignas(64) std::atomic<std::uint64_t> consumed{0};
  alignas(64) std::atomic<std::uint64_t> claimed{0};
  std::atomic<bool> reads{false};        // the receiver can read the memory of the sender's process
  std::atomic<std::uint64_t> report{0};  // of the receiver to the sender's delivery_choice

  message_slot& slot(std::uint64_t message) { return slots[message % capacity]; }
};

/// What one rank shows to all others on one lane: a ring of slots written by it alone, one for each shared round.
/// Rounds are counted alike on every rank. The size of a slot's message is not told but where in the vector it begins.
struct board {
  static constexpr std::uint64_t capacity = 16;
  /// So many of them are used. Two ranks of which one is ahead do better with few: messages of two lines, or copies,
  /// take half the time then. Where many read it, they are seldom all at the same one.
  static constexpr std::uint64_t used_among(int ranks) { return ranks == 2 ? capacity / 2 : capacity; }

  message_slot slots[capacity];
  // How many shared rounds this rank has ended: it is in nobody's memory for them any more. Told twice in a ring only,
  // unless it was, and others wait for it, and it does not show them something in the next round: a line that others
  // read is slow to write. Who waits for a slot to be free is so far ahead that this rank has several rounds to end
  // before it needs anything.
  alignas(64) std::atomic<std::uint64_t> ended{0};
  // Not 0 while it is in memory of others.
  alignas(64) std::atomic<std::uint64_t> claimed{0};
  // What this rank shows on the lane, here and in channels, is in its own hands again, unless it is a copy.
  std::atomic<bool> withdrawn{false};
};

}  // namespace tutti::detail
