// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/half_float.hpp>

#include <bit>
#include <cstdint>
#include <limits>

namespace tutti {

/// IEEE 754 binary16: 5 bits of exponent and a significand of 11 bits, from 2^-24 to 65504. Sums, products and averages
/// of them are computed in float throughout a collective and rounded once; see `accumulator`.
///
/// From float: to nearest, ties to even; what is too large is an infinity, a NaN stays one, quiet, with its sign and
/// what fits of its payload. To float: exact; a NaN becomes quiet. From double and integers of up to 32 bits: rounded
/// once. Arithmetic is that of float, rounded after each operation. The conversions need the processor to round to
/// nearest, as it does unless told otherwise.
class float16 : detail::half_float_operators<float16> {
 public:
  float16() = default;
  template <detail::rounds_once N>
  explicit constexpr float16(N value) : bits_(round(detail::float_of(value))) {}

  // Both conversions compute all three cases and choose. Source: Giesen 2012,
  // "Half-to-float done quic" and "Float->half variants".
  constexpr operator float() const {
    const std::uint32_t moved = std::uint32_t{bits_ & 0x7FFFU} << 13;
    const std::uint32_t normal = moved + (112U << 23);
    const std::uint32_t special = moved + (224U << 23) + (std::uint32_t{moved > 0x0F800000U} << 22 & ~moved);
    // As if it were normal, less what its hidden bit would add.
    const float units = std::bit_cast<float>(moved + (113U << 23)) - std::bit_cast<float>(113U << 23);
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(units) & 0x7FFFFFFFU;
    const std::uint32_t size = choose(moved >= 0x0F800000U, special, choose(moved < 0x00800000U, subnormal, normal));
    return std::bit_cast<float>(size | std::uint32_t{bits_ & 0x8000U} << 16);
  }

  static constexpr float16 from_bits(unsigned bits) {
    float16 result;
    result.bits_ = static_cast<std::uint16_t>(bits);
    return result;
  }
  constexpr std::uint16_t to_bits() const { return bits_; }

 private:
  /// Without a branch, which would keep g++ from vectorising.
  static constexpr std::uint32_t choose(bool condition, std::uint32_t yes, std::uint32_t no) {
    return no ^ ((yes ^ no) & (0U - std::uint32_t{condition}));
  }
  static constexpr std::uint16_t round(float value) {
    const auto b = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t size = b & 0x7FFFFFFFU;
    const std::uint32_t normal = (size - (112U << 23) + 0x0FFFU + (size >> 13 & 1U)) >> 13;
    // 0.5 has the unit of float16 as its last bit: the addition rounds to it.
    const float small = std::bit_cast<float>(choose(size < 0x38800000U, size, 0));
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(small + 0.5F) - 0x3F000000U;
    const std::uint32_t special = choose(size > 0x7F800000U, 0x7E00U | (size >> 13 & 0x03FFU), 0x7C00U);
    const std::uint32_t rounded = choose(size >= 0x47800000U, special, choose(size < 0x38800000U, subnormal, normal));
    return static_cast<std::uint16_t>(rounded | b >> 31 << 15);
  }

  std::uint16_t bits_;
};

}  // namespace tutti

template <>
struct std::numeric_limits<tutti::float16> : tutti::detail::half_float_limits<tutti::float16, 11, -13, 16> {};
