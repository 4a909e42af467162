// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>

namespace tutti::detail {

/// A list whose first entry lies in the object, since there is mostly one, and all entries in the arena where there are
/// more. Its address is never taken: the compiler can keep it in registers.
template <class E>
class step_list {
 public:
  TUTTI_ALWAYS_INLINE void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  /// One field of the only entry: a whole one that was just put together in parts would wait, to be read, for all
  /// stores.
  template <auto Field>
  TUTTI_ALWAYS_INLINE auto only() const {
    return first_.*Field;
  }
  /// All entries, where there are more than one.
  E* entries() const { return entries_; }
  TUTTI_ALWAYS_INLINE void push_back(const E& entry, arena& scratch) {
    if (size_ == 0) {
      first_ = entry;
    } else {
      if (size_ >= capacity_) [[unlikely]] {
        capacity_ = size_ < 16 ? 16 : 2 * size_;
        entries_ = larger(entries_, size_, capacity_, scratch);
      }
      if (size_ == 1) entries_[0] = first_;
      entries_[size_] = entry;
    }
    ++size_;
  }

 private:
  [[gnu::noinline]] static E* larger(const E* entries, std::size_t size, std::size_t capacity, arena& scratch) {
    E* const more = scratch.take_for<E>(capacity);
    for (std::size_t i = 0; i < size && entries != nullptr; ++i) more[i] = entries[i];
    return more;
  }

  E first_{};
  E* entries_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace tutti::detail
