// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/half_float.hpp>

#include <bit>
#include <cstdint>
#include <limits>

namespace tutti {

/// The upper half of a float: 8 bits of exponent, as float, and a significand of 8 bits. Sums, products and averages of
/// them are computed in float throughout a collective and rounded once; see `accumulator`.
///
/// From float: to nearest, ties to even; what is too large is an infinity, a NaN stays one, quiet, with its sign and
/// what fits of its payload. To float: the same bits and 16 zeros. From double and integers of up to 32 bits: rounded
/// once. Arithmetic is that of float, rounded after each operation. The conversions are integer arithmetic, the same on
/// every machine and in every mode of the processor.
class bfloat16 : detail::half_float_operators<bfloat16> {
 public:
  bfloat16() = default;
  template <detail::rounds_once N>
  explicit constexpr bfloat16(N value) : bits_(round(detail::float_of(value))) {}

  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

  static constexpr bfloat16 from_bits(unsigned bits) {
    bfloat16 result;
    result.bits_ = static_cast<std::uint16_t>(bits);
    return result;
  }
  constexpr std::uint16_t to_bits() const { return bits_; }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto b = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nearest = (b + 0x7FFFU + (b >> 16 & 1U)) >> 16;
    const std::uint32_t quiet = b >> 16 | 0x0040U;
    return static_cast<std::uint16_t>((b << 1) > 0xFF000000U ? quiet : nearest);
  }

  std::uint16_t bits_;
};

}  // namespace tutti

template <>
struct std::numeric_limits<tutti::bfloat16> : tutti::detail::half_float_limits<tutti::bfloat16, 8, -125, 128> {};
