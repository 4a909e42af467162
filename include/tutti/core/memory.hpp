// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

namespace tutti::detail {

[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_memory(std::size_t bytes, std::string_view purpose) {
  throw resource_error(message() << "the system refused " << bytes << " bytes of memory for " << purpose);
}

/// The result of `make()`, which takes so many bytes of memory. Where the system refuses them, throws `resource_error`
/// naming them and what they are for; std::bad_alloc only where there is no memory for the text of the error either.
template <class Make>
auto allocating(std::size_t bytes, std::string_view purpose, Make&& make) {
  if (bytes == SIZE_MAX) refuse_memory(bytes, purpose);  // of more there is no number
  try {
    return make();
  } catch (const std::bad_alloc&) {
    refuse_memory(bytes, purpose);
  }
}

/// The bytes of so many objects; SIZE_MAX where they are more.
template <class T>
constexpr std::size_t bytes_for(std::size_t objects) {
  return objects > SIZE_MAX / sizeof(T) ? SIZE_MAX : objects * sizeof(T);
}

}  // namespace tutti::detail
