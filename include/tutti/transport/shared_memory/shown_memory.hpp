// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <utility>

namespace tutti::detail {

/// Memory of a lane that other ranks read. When the lane ends they may still do so: the group keeps it for them.
template <class Group>
class shown_memory {
 public:
  shown_memory() = default;
  shown_memory(Group& group, std::size_t bytes) : group_(&group), memory_(group.make_memory(bytes)) {}
  shown_memory(shown_memory&& other) noexcept
      : group_(std::exchange(other.group_, nullptr)), memory_(std::move(other.memory_)) {}
  shown_memory& operator=(shown_memory&& other) noexcept {
    std::swap(group_, other.group_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~shown_memory() {
    if (group_ != nullptr) group_->keep(std::move(memory_));
  }

  std::size_t size() const { return memory_.size(); }
  std::byte* data() { return memory_.data(); }

 private:
  Group* group_ = nullptr;
  typename Group::memory memory_;
};

}  // namespace tutti::detail
