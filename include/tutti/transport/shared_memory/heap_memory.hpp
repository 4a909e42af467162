// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>

#include <cstddef>

namespace tutti::detail {

/// Memory on the heap, aligned to cache lines.
class heap_memory {
 public:
  heap_memory() = default;
  explicit heap_memory(std::size_t bytes) : lines_((bytes + sizeof(line) - 1) / sizeof(line)) {}
  std::size_t size() const { return lines_.size() * sizeof(line); }
  std::byte* data() { return size() == 0 ? nullptr : lines_[0].bytes; }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };
  owned_array<line> lines_;
};

}  // namespace tutti::detail
