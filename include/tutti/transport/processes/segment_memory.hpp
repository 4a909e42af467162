// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

namespace tutti::detail {

/// Memory in the segment, which lasts as long as the group.
class segment_memory {
 public:
  segment_memory() = default;
  segment_memory(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t size() const { return size_; }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tutti::detail
