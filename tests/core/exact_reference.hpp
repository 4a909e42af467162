// SPDX-License-Identifier: BSL-1.0
#pragma once

// Sums by school arithmetic, to compare with: no bit of a floating-point number is looked at here, only its value.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace test {

/// The exact sum of finite values of T, in decimal fashion: digits of 16 bits, positive and negative addends apart.
template <class T>
class exact_reference {
  using limits = std::numeric_limits<T>;
  // The unit is the smallest positive double: every T is a whole number of them.
  static constexpr int unit = -1074;
  static constexpr std::size_t digits = 160;
  using number = std::array<std::uint64_t, digits>;

 public:
  void add(T value) {
    const auto wide = static_cast<double>(value);
    if (wide == 0) return;
    int exponent = 0;
    const double fraction = std::frexp(std::abs(wide), &exponent);
    auto whole = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
    int shift = exponent - 53 - unit;
    for (; shift < 0; ++shift) whole /= 2;  // exact: it is a multiple
    number& sum = wide < 0 ? negative_ : positive_;
    auto at = static_cast<std::size_t>(shift) / 16;
    std::uint64_t carry = 0;
    // 53 bits and up to 15 of shift: digit by digit.
    const int offset = shift % 16;
    const std::array<std::uint64_t, 5> parts{(whole << offset) & 0xFFFF, (whole >> (16 - offset)) & 0xFFFF,
                                             (whole >> (32 - offset)) & 0xFFFF, (whole >> (48 - offset)) & 0xFFFF,
                                             offset == 0 ? 0 : (whole >> (64 - offset)) & 0xFFFF};
    for (std::size_t i = 0; i < parts.size() || carry != 0; ++i, ++at) {
      carry += sum[at] + (i < parts.size() ? parts[i] : 0);
      sum[at] = carry & 0xFFFF;
      carry >>= 16;
    }
  }

  /// To nearest, ties to even.
  T rounded() const {
    const bool minus =
        std::lexicographical_compare(positive_.rbegin(), positive_.rend(), negative_.rbegin(), negative_.rend());
    const number& more = minus ? negative_ : positive_;
    const number& less = minus ? positive_ : negative_;
    number size{};
    std::int64_t borrow = 0;
    int length = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      borrow += static_cast<std::int64_t>(more[i]) - static_cast<std::int64_t>(less[i]);
      size[i] = static_cast<std::uint64_t>(borrow & 0xFFFF);
      borrow >>= 16;
      for (int b = 0; b < 16; ++b)
        if ((size[i] >> b & 1) != 0) length = static_cast<int>(16 * i) + b + 1;
    }
    const auto bit = [&](int position) {
      return position < 0 ? 0 : size[static_cast<std::size_t>(position) / 16] >> (position % 16) & 1;
    };
    // The last place of a T of this size, in units of a double.
    const int last = std::max(length - limits::digits, limits::min_exponent - limits::digits - unit);
    double kept = 0;
    for (int position = length - 1; position >= last; --position) kept = 2 * kept + static_cast<double>(bit(position));
    bool below = false;
    for (int position = 0; position < last - 1; ++position) below = below || bit(position) != 0;
    if (bit(last - 1) != 0 && (below || std::fmod(kept, 2) != 0)) kept += 1;
    const double largest = std::ldexp(1.0, limits::digits);
    const bool overflow = last + unit > limits::max_exponent - limits::digits ||
                          (last + unit == limits::max_exponent - limits::digits && kept == largest);
    if (overflow) return minus ? -limits::infinity() : limits::infinity();
    const double result = std::ldexp(kept, last + unit);
    return static_cast<T>(minus ? -result : result);
  }

 private:
  number positive_{};
  number negative_{};
};

}  // namespace test
