// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tutti::detail {

/// A binary interchange format of IEEE 754, or bfloat16, of 16, 32 or 64 bits: a sign, an exponent, a fraction. The
/// types of this library, float and double, and any other type of which std::numeric_limits says so.
template <class T>
concept binary_float =
    (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8) &&
    std::is_trivially_copyable_v<T>&& std::numeric_limits<T>::is_iec559&& std::numeric_limits<T>::radix == 2;

template <class T>
concept half_float = binary_float<T> && sizeof(T) == 2;

template <std::size_t Bytes>
struct unsigned_of;
template <>
struct unsigned_of<2> {
  using type = std::uint16_t;
};
template <>
struct unsigned_of<4> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<8> {
  using type = std::uint64_t;
};

/// Where the parts of such a type lie. A finite number of exponent field e and fraction f is f units if e is 0, else
/// `2^(digits - 1) + f` units times `2^(e - 1)`; the unit is the smallest positive number.
template <binary_float T>
struct float_format {
  using bits = typename unsigned_of<sizeof(T)>::type;

  static constexpr int digits = std::numeric_limits<T>::digits;  // of the significand, with its hidden bit
  static constexpr int exponent_bits = static_cast<int>(8 * sizeof(T)) - digits;
  static constexpr int special = (1 << exponent_bits) - 1;  // the exponent field of infinities and NaNs
  static constexpr int width = digits + special - 2;        // every finite number is less than 2^width units

  static constexpr bits hidden = static_cast<bits>(bits{1} << (digits - 1));
  static constexpr bits infinity = static_cast<bits>(static_cast<bits>(special) << (digits - 1));
  static constexpr bits quiet_nan = static_cast<bits>(infinity | (hidden >> 1));
  static constexpr bits sign = static_cast<bits>(bits{1} << (8 * sizeof(T) - 1));
};

}  // namespace tutti::detail
