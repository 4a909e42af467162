// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/float_format.hpp>

#include <bit>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tutti::detail {

/// The arithmetic types whose values convert to a type of 16 bits without being rounded twice.
template <class N>
concept rounds_once = std::is_same_v<N, float> || std::is_same_v<N, double> ||(std::is_integral_v<N> && sizeof(N) <= 4);

/// The number as a float that rounds to 16 bits as the number itself would: cut off, and its last bit set if that lost
/// anything (round to odd; Boldo and Melquiond 2008).
constexpr float odd_float(double number) {
  const float nearest = static_cast<float>(number);
  if (static_cast<double>(nearest) == number || number != number) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = nearest;
  if (number < 0 ? back < number : back > number) --bits;
  return std::bit_cast<float>(bits | 1U);
}
template <rounds_once N>
constexpr float float_of(N number) {
  if constexpr (std::is_same_v<N, float>) {
    return number;
  } else {
    return odd_float(static_cast<double>(number));
  }
}

/// What the floating-point types of 16 bits have in common: arithmetic in float, rounded after each operation, and
/// comparison.
template <class H>
struct half_float_operators {
  friend constexpr H operator+(H a, H b) { return H(static_cast<float>(a) + static_cast<float>(b)); }
  friend constexpr H operator-(H a, H b) { return H(static_cast<float>(a) - static_cast<float>(b)); }
  friend constexpr H operator*(H a, H b) { return H(static_cast<float>(a) * static_cast<float>(b)); }
  friend constexpr H operator/(H a, H b) { return H(static_cast<float>(a) / static_cast<float>(b)); }
  friend constexpr H& operator+=(H& a, H b) { return a = a + b; }
  friend constexpr H& operator-=(H& a, H b) { return a = a - b; }
  friend constexpr H& operator*=(H& a, H b) { return a = a * b; }
  friend constexpr H& operator/=(H& a, H b) { return a = a / b; }
  friend constexpr H operator+(H a) { return a; }
  friend constexpr H operator-(H a) {
    return H::from_bits(static_cast<std::uint16_t>(a.to_bits() ^ float_format<H>::sign));
  }
  friend constexpr bool operator==(H a, H b) { return static_cast<float>(a) == static_cast<float>(b); }
  friend constexpr std::partial_ordering operator<=>(H a, H b) {
    return static_cast<float>(a) <=> static_cast<float>(b);
  }
};

/// std::numeric_limits of a type of 16 bits with so many digits and such exponents.
template <class H, int Digits, int MinExponent, int MaxExponent>
struct half_float_limits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = true;
  // NOLINTBEGIN(readability-identifier-naming): the standard's names
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  // NOLINTEND(readability-identifier-naming)
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr int radix = 2;
  static constexpr int digits = Digits;
  static constexpr int digits10 = (Digits - 1) * 30103 / 100000;
  static constexpr int max_digits10 = Digits * 30103 / 100000 + 2;
  static constexpr int min_exponent = MinExponent;
  static constexpr int max_exponent = MaxExponent;
  static constexpr int min_exponent10 = (MinExponent - 1) * 30103 / 100000;
  static constexpr int max_exponent10 = MaxExponent * 30103 / 100000;

  static constexpr H min() noexcept { return H::from_bits(1U << (Digits - 1)); }
  static constexpr H max() noexcept { return H::from_bits(infinity_bits - 1U); }
  static constexpr H lowest() noexcept { return H::from_bits(0x8000U | (infinity_bits - 1U)); }
  static constexpr H epsilon() noexcept { return H::from_bits((MaxExponent - Digits) << (Digits - 1)); }
  static constexpr H round_error() noexcept { return H::from_bits((MaxExponent - 2) << (Digits - 1)); }
  static constexpr H infinity() noexcept { return H::from_bits(infinity_bits); }
  // NOLINTBEGIN(readability-identifier-naming): the standard's names
  static constexpr H quiet_NaN() noexcept { return H::from_bits(infinity_bits | (1U << (Digits - 2))); }
  static constexpr H signaling_NaN() noexcept { return H::from_bits(infinity_bits | (1U << (Digits - 3))); }
  // NOLINTEND(readability-identifier-naming)
  static constexpr H denorm_min() noexcept { return H::from_bits(1); }

 private:
  static constexpr unsigned infinity_bits = (2U * MaxExponent - 1U) << (Digits - 1);
};

}  // namespace tutti::detail
