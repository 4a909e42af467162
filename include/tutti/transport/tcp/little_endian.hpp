// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tutti::detail {

/// Writes a whole number of any fixed size, the lowest byte first.
template <class T>
void put_little(std::byte* to, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof(T); ++i)
    to[i] = static_cast<std::byte>(static_cast<unsigned char>(value >> (8 * i)));
}
/// Reads what `put_little` wrote.
template <class T>
T get_little(const std::byte* from) {
  static_assert(std::is_unsigned_v<T>);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::uint64_t{std::to_integer<unsigned char>(from[i])} << (8 * i);
  return static_cast<T>(value);
}

/// Writes a frame of fixed size field by field: whole numbers, enumerations and bytes.
class frame_writer {
 public:
  explicit frame_writer(std::byte* at) : at_(at) {}
  template <class T>
  frame_writer& number(T value) {
    put_little(at_, static_cast<std::make_unsigned_t<T>>(value));
    at_ += sizeof(T);
    return *this;
  }
  frame_writer& bytes(const void* data, std::size_t size) {
    std::memcpy(at_, data, size);
    at_ += size;
    return *this;
  }

 private:
  std::byte* at_;
};

/// Reads it in the same order.
class frame_reader {
 public:
  explicit frame_reader(const std::byte* at) : at_(at) {}
  template <class T>
  frame_reader& number(T& value) {
    value = static_cast<T>(get_little<std::make_unsigned_t<T>>(at_));
    at_ += sizeof(T);
    return *this;
  }
  frame_reader& bytes(void* data, std::size_t size) {
    std::memcpy(data, at_, size);
    at_ += size;
    return *this;
  }

 private:
  const std::byte* at_;
};

}  // namespace tutti::detail
