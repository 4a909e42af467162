// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/transport/processes/segment.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// Pieces of memory in a segment that are given back and taken again: four sizes for each power of two, and a stack of
/// free pieces for each. It lies in the segment itself, all zero to begin with, and all processes use it at once; none
/// waits for another. One that dies in between takes no more than one piece with it.
///
/// Before each piece stands a link. While the piece is taken, its taker may use that to keep its pieces in a list.
class piece_pool {
 public:
  static constexpr std::size_t alignment = 128;

  /// Where a piece of at least so many bytes begins, which hold anything. `purpose` is for the `resource_error` that it
  /// throws where the segment has no more.
  std::uint64_t take(segment& memory, std::size_t bytes, const char* purpose) {
    if (bytes > memory.range()) memory.reserve(bytes, 1, purpose);  // throws
    const int c = class_for((bytes + alignment - 1) / alignment + 1);
    TUTTI_FAULT_POINT("pool.take");
    std::uint64_t top = free_[c].load(std::memory_order_acquire);
    while (place_of(top) != 0) {
      // It may be taken and used by somebody else meanwhile: then the number before it has changed.
      const std::uint64_t next = link(memory, place_of(top)).next.load(std::memory_order_relaxed);
      if (free_[c].compare_exchange_weak(top, replaced(top, next), std::memory_order_acquire)) {
        TUTTI_FAULT_POINT("pool.taken");
        return place_of(top);
      }
    }
    const std::uint64_t fresh = memory.take(units_of(c) * alignment, alignment, purpose) + alignment;
    link(memory, fresh).size_class = c;
    return fresh;
  }
  void give_back(segment& memory, std::uint64_t piece) noexcept {
    piece_link& l = link(memory, piece);
    std::atomic<std::uint64_t>& stack = free_[l.size_class];
    std::uint64_t top = stack.load(std::memory_order_relaxed);
    do {
      l.next.store(place_of(top), std::memory_order_relaxed);
    } while (!stack.compare_exchange_weak(top, replaced(top, piece), std::memory_order_release));
    TUTTI_FAULT_POINT("pool.given_back");
  }

  /// The link of a taken piece, for its taker.
  static std::atomic<std::uint64_t>& next_of(segment& memory, std::uint64_t piece) { return link(memory, piece).next; }

 private:
  static constexpr int classes = 4 * 40;
  struct alignas(alignment) piece_link {
    std::atomic<std::uint64_t> next;
    int size_class;
  };
  static_assert(sizeof(piece_link) == alignment);

  static piece_link& link(segment& memory, std::uint64_t piece) {
    return *memory.object<piece_link>(piece - alignment);
  }

  static constexpr std::uint64_t units_of(int c) {
    return c < 4 ? static_cast<std::uint64_t>(c) : std::uint64_t{4 + static_cast<unsigned>(c) % 4} << (c / 4 - 1);
  }
  static constexpr int class_for(std::uint64_t units) {
    if (units < 4) return static_cast<int>(units);
    const int log = static_cast<int>(std::bit_width(units)) - 1;
    const int c = 4 * (log - 1) + static_cast<int>(units >> (log - 2) & 3);
    return units_of(c) < units ? c + 1 : c;
  }

  // The top of a stack: how often it has changed, then where the piece is. So what was read before somebody else took
  // the piece and gave it back is not taken for what is there now.
  static constexpr int place_bits = 32;
  static_assert(segment::default_range / alignment <= std::uint64_t{1} << (place_bits - 1));
  static std::uint64_t place_of(std::uint64_t top) {
    return (top & ((std::uint64_t{1} << place_bits) - 1)) * alignment;
  }
  static std::uint64_t replaced(std::uint64_t top, std::uint64_t piece) {
    return ((top >> place_bits) + 1) << place_bits | piece / alignment;
  }

  std::atomic<std::uint64_t> free_[classes] = {};
};

}  // namespace tutti::detail
