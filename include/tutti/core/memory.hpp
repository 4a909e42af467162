// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

namespace tutti::detail {

[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_memory(std::size_t bytes, std::string_view purpose) {
  throw resource_error(message() << "the system refused " << bytes << " bytes of memory for " << purpose);
}

/// The result of `make()`, which takes so many bytes of memory. Where the system refuses them, throws `resource_error`
/// naming them and what they are for; std::bad_alloc only where there is no memory for the text of the error either.
template <class Make>
auto allocating(std::size_t bytes, std::string_view purpose, Make&& make) {
  if (bytes > PTRDIFF_MAX) refuse_memory(bytes, purpose);  // there is no such object; rounded up it might be small
  try {
    return make();
  } catch (const std::bad_alloc&) {
    refuse_memory(bytes, purpose);
  }
}

/// What one thread writes lies this far from what others do: processors fetch cache lines in pairs.
inline constexpr std::size_t apart_bytes = 128;

/// The bytes of so many objects; SIZE_MAX where they are more.
template <class T>
constexpr std::size_t bytes_for(std::size_t objects) {
  return objects > SIZE_MAX / sizeof(T) ? SIZE_MAX : objects * sizeof(T);
}

/// The memory of an array: so many bytes in cache lines that hold nothing else; null for none. Throws `resource_error`.
inline std::byte* take_apart(std::size_t bytes, std::size_t alignment, std::string_view purpose) {
  if (bytes == 0) return nullptr;
  return allocating(bytes, purpose, [&] {
    const std::size_t whole = (bytes + apart_bytes - 1) / apart_bytes * apart_bytes;
    return static_cast<std::byte*>(::operator new(whole, std::align_val_t(alignment)));
  });
}

template <class T>
inline constexpr std::size_t alignment_apart = alignof(T) > apart_bytes ? alignof(T) : apart_bytes;

template <class T>
void destroy_apart(T* objects, std::size_t count) noexcept {
  if (objects == nullptr) return;
  if constexpr (!std::is_trivially_destructible_v<T>)
    while (count > 0) objects[--count].~T();
  ::operator delete(static_cast<void*>(objects), std::align_val_t(alignment_apart<T>));
}
/// So many objects, zero or default, in cache lines that hold nothing else; null for none.
template <class T>
T* make_apart(std::size_t count, std::string_view purpose) {
  const std::size_t bytes = bytes_for<T>(count);
  if (bytes > PTRDIFF_MAX) refuse_memory(bytes, purpose);  // said here too, or compilers warn of the loop
  T* const objects = reinterpret_cast<T*>(take_apart(bytes, alignment_apart<T>, purpose));
  if constexpr (std::is_nothrow_default_constructible_v<T>) {
    for (std::size_t i = 0; i < count; ++i) ::new (static_cast<void*>(objects + i)) T();
  } else {
    std::size_t made = 0;
    try {
      for (; made < count; ++made) ::new (static_cast<void*>(objects + made)) T();
    } catch (...) {
      destroy_apart(objects, made);
      throw;
    }
  }
  return objects;
}

}  // namespace tutti::detail
