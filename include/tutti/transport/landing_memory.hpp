// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/owned_memory.hpp>

#include <cstddef>
#include <utility>

namespace tutti::detail {

/// Memory where messages land until they have been folded: what was given back last is taken next, while it is in the
/// cache.
class landing_memory {
 public:
  struct piece {
    owned_memory memory;
    std::size_t size = 0;
  };

  /// For so many pieces at a time.
  explicit landing_memory(std::size_t pieces) : unused_(pieces, "landing memory") {}

  /// Of at least so many bytes, and never none; aligned to cache lines.
  piece take(std::size_t bytes) {
    if (count_ != 0) {
      piece last = std::exchange(unused_[--count_], {});
      if (last.size >= bytes) return last;
    }
    const std::size_t size = bytes < smallest ? smallest : bytes;
    piece made;
    made.memory = allocating(size, "messages that are folded", [size] { return owned_memory::ordinary(size); });
    made.size = size;
    return made;
  }
  void give_back(piece&& done) noexcept { unused_[count_++] = std::move(done); }

 private:
  static constexpr std::size_t smallest = 4096;

  owned_array<piece> unused_;
  std::size_t count_ = 0;
};

}  // namespace tutti::detail
