// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// One message: 32 bytes of description, and room for a small message whole, so that an 8-byte message costs the
/// transfer of one cache line. Two lines long, since processors fetch lines in pairs.
struct alignas(128) message_slot {
  static constexpr std::size_t inline_bytes = 96;
  static constexpr std::size_t first_line_bytes = 32;

  std::atomic<std::uint32_t> turn{0};  // number of the message in the slot, from 1; written last
  std::uint32_t consumed = 0;          // low bits of how many messages of the receiver the sender has consumed
  std::uint64_t fingerprint = 0;
  std::uint64_t size : 63 = 0;
  std::uint64_t direct : 1 = 0;        // whether `address` is the sender's own memory, not a copy
  const std::byte* address = nullptr;  // null: the bytes are in `payload`
  std::byte payload[inline_bytes] = {};

  bool arrived(std::uint64_t number) const {
    return turn.load(std::memory_order_acquire) == static_cast<std::uint32_t>(number);
  }
};
static_assert(sizeof(message_slot) == 128);

/// Copies a small message; most have 8 bytes.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

/// What one rank sends to one other on one lane: a ring of slots with a single producer and a single consumer.
struct channel {
  static constexpr std::uint64_t capacity = 8;

  message_slot slots[capacity];
  // Written by the receiver only. `claimed > consumed` while it reads memory of the sender.
  alignas(64) std::atomic<std::uint64_t> consumed{0};
  alignas(64) std::atomic<std::uint64_t> claimed{0};

  message_slot& slot(std::uint64_t message) { return slots[message % capacity]; }
};

/// What one rank shows to all others on one lane: a ring of slots written by it alone, one for each shared round.
/// Rounds are counted alike on every rank. The size of a slot's message is not told but where in the vector it begins.
struct board {
  static constexpr std::uint64_t capacity = 16;
  static constexpr std::size_t copy_bytes = 4096;

  message_slot slots[capacity];
  // How many shared rounds this rank has ended: it reads nothing of theirs any more. Told now and then only where all
  // publish and read: a line that others read is slow to write, and what is published next tells the same.
  static constexpr std::uint64_t told_every = 4;
  alignas(64) std::atomic<std::uint64_t> ended{0};
  // Not 0 while it reads memory of others.
  alignas(64) std::atomic<std::uint64_t> claimed{0};

  message_slot& slot(std::uint64_t round) { return slots[round % capacity]; }
};

}  // namespace tutti::detail
