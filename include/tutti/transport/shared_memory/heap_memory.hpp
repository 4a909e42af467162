// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tutti::detail {

/// Memory on the heap, aligned to cache lines.
class heap_memory {
 public:
  heap_memory() = default;
  explicit heap_memory(std::size_t bytes) : size_(whole_lines(bytes)) {
    if (size_ == 0) return;
    first_ = allocating(size_, "copies of messages", [this] { return new line[size_ / sizeof(line) + 1]; });
  }
  heap_memory(heap_memory&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  heap_memory& operator=(heap_memory&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~heap_memory() { delete[] first_; }

  std::size_t size() const { return size_; }
  std::byte* data() { return first_ == nullptr ? nullptr : first_[1].bytes; }

 private:
  friend class kept_memory;

  struct alignas(64) line {
    union {
      std::byte bytes[64];
      line* next;  // of the first, which nobody is shown
    };
  };
  static std::size_t whole_lines(std::size_t bytes) {
    return bytes > SIZE_MAX - sizeof(line) ? SIZE_MAX : (bytes + sizeof(line) - 1) / sizeof(line) * sizeof(line);
  }

  line* first_ = nullptr;
  std::size_t size_ = 0;
};

/// Pieces of memory that nobody uses any more but that others may still read: freed together. Keeping one allocates
/// nothing.
class kept_memory {
 public:
  kept_memory() = default;
  kept_memory(const kept_memory&) = delete;
  kept_memory& operator=(const kept_memory&) = delete;
  ~kept_memory() {
    while (first_ != nullptr) delete[] std::exchange(first_, first_->next);
  }

  void keep(heap_memory piece) noexcept {
    if (piece.first_ == nullptr) return;
    piece.first_->next = first_;
    first_ = std::exchange(piece.first_, nullptr);
  }

 private:
  heap_memory::line* first_ = nullptr;
};

}  // namespace tutti::detail
