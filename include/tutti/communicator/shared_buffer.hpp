// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_memory.hpp>
#include <tutti/core/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tutti {

/// What `comm.allocate<T>(n)` returns: `n` elements in memory that the transport can read from every rank, so that
/// collectives over it copy nothing that they need not. It is a contiguous range like a vector of fixed size, and
/// belongs to this rank: the other ranks have buffers of their own. Moved, not copied. It may outlive the communicator,
/// and may end on any thread; ending never waits and never throws. It must not end, or be moved into, while a
/// nonblocking collective over it is pending.
template <class T>
class shared_buffer {
  static_assert(std::is_trivially_copyable_v<T>, "tutti: the elements of a buffer must be trivially copyable");
  static_assert(std::is_default_constructible_v<T>, "tutti: the elements of a buffer must have a value to begin with");
  static_assert(alignof(T) <= 64, "tutti: the elements of a buffer must not be aligned to more than 64 bytes");

 public:
  using value_type = T;
  using element_type = T;
  using size_type = std::size_t;
  using iterator = T*;
  using const_iterator = const T*;

  /// A buffer of no elements.
  shared_buffer() = default;
  shared_buffer(shared_buffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  shared_buffer& operator=(shared_buffer&& other) noexcept {
    shared_buffer ended(std::move(other));
    std::swap(memory_, ended.memory_);
    std::swap(data_, ended.data_);
    std::swap(size_, ended.size_);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  const T* begin() const { return data_; }
  T* end() { return data_ + size_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

  /// For communicators: `size` elements, zero or as they are by default, in that memory.
  shared_buffer(owned_memory memory, std::size_t size)
      : memory_(std::move(memory)), data_(reinterpret_cast<T*>(memory_.data())), size_(size) {
    for (std::size_t i = 0; i < size; ++i) ::new (static_cast<T*>(data_ + i)) T();
  }

 private:
  owned_memory memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

/// Memory for `count` elements of `each` bytes: from the transport, if it has memory of its own.
template <class Transport>
[[gnu::noinline]] owned_memory memory_for_elements(Transport& transport, std::size_t count, std::size_t each,
                                                   std::string_view type) {
  message purpose;
  purpose << "allocate on rank " << transport.rank() << " of " << count << " elements of type " << type;
  if (count > std::size_t{PTRDIFF_MAX} / each)
    throw usage_error(message() << purpose.str() << ", of " << each << " bytes each: more than there can be");
  if constexpr (allocating_transport<Transport>) {
    return transport.memory().take(count * each, 64, purpose.str().c_str());
  } else {
    try {
      return owned_memory::ordinary(count * each);
    } catch (const std::bad_alloc&) {
      throw resource_error(message() << "not enough memory for " << purpose.str() << ": " << count * each
                                     << " bytes needed");
    }
  }
}

}  // namespace detail
}  // namespace tutti
