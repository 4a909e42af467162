// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// One message in a channel: 32 bytes of description and 32 bytes that hold a small message whole, so that an 8-byte message
/// costs the transfer of one cache line.
struct alignas(64) channel_slot {
  static constexpr std::size_t inline_bytes = 32;

  std::atomic<std::uint32_t> turn{0};  // number of the message in the slot, from 1; written last
  std::uint32_t sequence = 0;          // low bits of the call's number
  std::uint64_t fingerprint = 0;
  std::uint64_t size = 0;
  const std::byte* address = nullptr;  // null: the bytes are in `payload`
  alignas(32) std::array<std::byte, inline_bytes> payload{};
};
static_assert(sizeof(channel_slot) == 64);

/// What one rank sends to one other on one lane: a ring of slots with a single producer and a single consumer.
struct channel {
  static constexpr std::uint64_t capacity = 8;

  std::array<channel_slot, capacity> slots;
  // Written by the receiver only. `claimed > consumed` while it reads memory of the sender.
  alignas(64) std::atomic<std::uint64_t> consumed{0};
  std::atomic<std::uint64_t> claimed{0};

  channel_slot& slot(std::uint64_t message) { return slots[message % capacity]; }
};

}  // namespace tutti::detail
