// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_memory.hpp>
#include <tutti/transport/processes/heap.hpp>
#include <tutti/transport/processes/segment.hpp>

#include <cstddef>
#include <mutex>
#include <utility>

namespace tutti::detail {

/// A segment, and this rank's heap in it, for as long as anybody in this process uses them: the group, or a buffer that
/// has outlived it. Buffers may end on any thread; a lock of this process orders that, on no path to the bytes.
class shared_heap final : public memory_owner {
 public:
  static kept<shared_heap> create(segment memory) { return kept<shared_heap>(new shared_heap(std::move(memory))); }

  segment& memory() { return memory_; }
  /// The bytes in use.
  std::uint64_t live() {
    const std::lock_guard lock(mutex_);
    return heap_.live();
  }

 private:
  explicit shared_heap(segment memory)
      : memory_owner(take_piece, give_back, end), memory_(std::move(memory)), heap_(memory_) {}
  static std::byte* take_piece(memory_owner& owner, std::size_t bytes, std::size_t alignment, const char* purpose) {
    auto& self = static_cast<shared_heap&>(owner);
    const std::lock_guard lock(self.mutex_);
    return self.heap_.take(bytes, alignment, purpose);
  }
  static void give_back(memory_owner& owner, std::byte* data) noexcept {
    auto& self = static_cast<shared_heap&>(owner);
    const std::lock_guard lock(self.mutex_);
    self.heap_.give_back(data);
  }
  static void end(memory_owner& owner) noexcept { delete &static_cast<shared_heap&>(owner); }

  segment memory_;
  std::mutex mutex_;
  heap heap_;
};

}  // namespace tutti::detail
