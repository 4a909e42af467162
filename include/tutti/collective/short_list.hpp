// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/arena.hpp>

#include <cstddef>

namespace tutti::detail {

/// A list that lies in the object up to N entries and in the arena beyond. Stays where it was made.
template <class E, std::size_t N>
class short_list {
 public:
  short_list() = default;
  short_list(const short_list&) = delete;
  short_list& operator=(const short_list&) = delete;

  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  E& operator[](std::size_t i) { return entries_[i]; }
  E* data() { return entries_; }
  [[gnu::always_inline]] void push_back(const E& entry, arena& scratch) {
    if (size_ == capacity_) [[unlikely]]
      grow(scratch);
    entries_[size_++] = entry;
  }

 private:
  [[gnu::noinline, gnu::cold]] void grow(arena& scratch) {
    E* const larger = scratch.take_for<E>(2 * capacity_);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = entries_[i];
    entries_ = larger;
    capacity_ *= 2;
  }

  E own_[N];
  E* entries_ = own_;
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace tutti::detail
