// SPDX-License-Identifier: BSL-1.0

// bfloat16 and float16: every pattern of 16 bits both ways, and every boundary at which a float rounds.

#include <tutti/core/bfloat16.hpp>
#include <tutti/core/float16.hpp>
#include <tutti/core/operation.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

namespace {

using tutti::bfloat16;
using tutti::float16;

template <class H>
constexpr bool is_like = sizeof(H) == 2 && alignof(H) == 2 &&
                         std::is_trivial_v<H>&& std::is_convertible_v<H, float>&& std::is_constructible_v<
                             H, float>&& std::is_constructible_v<H, double>&& std::is_constructible_v<H, int> &&
                         !std::is_convertible_v<float, H> && !std::is_constructible_v<H, long long> &&
                         !std::is_constructible_v<H, long double> && std::numeric_limits<H>::is_specialized;
static_assert(is_like<bfloat16> && is_like<float16>);
static_assert(bfloat16(1.0F) + bfloat16(2) == bfloat16(3.0) && float16(1) / float16(4) == 0.25F);
static_assert(float16(2) > float16(-1) && bfloat16(2) <= bfloat16(2) && -bfloat16(2) == bfloat16(-2));

/// What a type is by definition.
template <class H>
struct definition;
template <>
struct definition<bfloat16> {
  static constexpr int digits = 8, bias = 127, special = 255;
};
template <>
struct definition<float16> {
  static constexpr int digits = 11, bias = 15, special = 31;
};

/// The value of a pattern by the definition.
template <class H>
double value_of(unsigned pattern) {
  using d = definition<H>;
  const int fraction = static_cast<int>(pattern & ((1U << (d::digits - 1)) - 1));
  const int field = static_cast<int>(pattern >> (d::digits - 1)) & d::special;
  double size = 0;
  if (field == d::special) {
    size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (field == 0) {
    size = std::ldexp(fraction, 1 - d::bias - (d::digits - 1));
  } else {
    size = std::ldexp(fraction + (1 << (d::digits - 1)), field - d::bias - (d::digits - 1));
  }
  return (pattern & 0x8000U) != 0 ? -size : size;
}

/// The pattern that a number rounds to, by the definition: as many whole places as it has, ties to even.
template <class H>
unsigned pattern_of(double value) {
  using d = definition<H>;
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  const double size = std::min(std::abs(value), 0x1p200);
  const int least = 1 - d::bias;
  const int exponent = size == 0 ? least : std::max(std::ilogb(size), least);
  const double places = std::nearbyint(std::ldexp(size, d::digits - 1 - exponent));  // exact but for the rounding
  const double pattern = places + static_cast<double>(exponent - least) * (1 << (d::digits - 1));
  const double infinity = static_cast<double>(d::special) * (1 << (d::digits - 1));
  return sign | static_cast<unsigned>(std::min(pattern, infinity));
}

template <class H>
H half(unsigned pattern) {
  return H::from_bits(pattern);
}
std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Numbers, and both sides of where they round.
template <class H, class F>
void at_every_boundary(F&& check) {
  for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
    const double value = value_of<H>(pattern), next = value_of<H>(pattern + 1);
    if (!std::isfinite(value) || !std::isfinite(next) || std::signbit(value) != std::signbit(next)) continue;
    const auto middle = static_cast<float>((value + next) / 2);  // exact: one digit more
    check(middle);
    check(std::nextafterf(middle, 0));
    check(std::nextafterf(middle, std::signbit(middle) ? -INFINITY : INFINITY));
    check(std::nextafterf(static_cast<float>(value), 0));
    check(std::nextafterf(static_cast<float>(value), std::signbit(middle) ? -INFINITY : INFINITY));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("every pattern has its value, and comes back", H, bfloat16, float16) {
  int wrong = 0;
  for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
    const double expected = value_of<H>(pattern);
    const float wide = half<H>(pattern);
    if (std::isnan(expected)) {
      // A NaN, with sign and payload, and quiet when it comes back.
      const unsigned quiet = pattern | 1U << (definition<H>::digits - 2);
      const unsigned given = std::is_same_v<H, bfloat16> ? pattern : quiet;
      const unsigned fraction = given & ((1U << (definition<H>::digits - 1)) - 1);
      wrong += bits(wide) != ((pattern & 0x8000U) << 16 | 0x7F800000U | fraction << (24 - definition<H>::digits));
      wrong += std::signbit(wide) != ((pattern & 0x8000U) != 0);
      wrong += H(wide).to_bits() != quiet;
      wrong += !std::isnan(static_cast<float>(H(static_cast<double>(wide))));
    } else {
      wrong += bits(wide) != bits(static_cast<float>(expected));
      wrong += H(wide).to_bits() != pattern || H(expected).to_bits() != pattern;
      wrong += (-half<H>(pattern)).to_bits() != (pattern ^ 0x8000U);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("floats round to nearest, ties to even", H, bfloat16, float16) {
  int wrong = 0;
  at_every_boundary<H>([&](float value) { wrong += H(value).to_bits() != pattern_of<H>(value); });
  // Floats of all exponents, subnormal and too large ones too.
  for (std::uint64_t pattern = 0; pattern < 0x100000000; pattern += 30'011) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (!std::isnan(value)) wrong += H(value).to_bits() != pattern_of<H>(value);
  }
  for (const float value : {0.0F, 0x1p-149F, 0x1p-126F, std::numeric_limits<float>::max(), INFINITY}) {
    wrong += H(value).to_bits() != pattern_of<H>(value);
    wrong += H(-value).to_bits() != pattern_of<H>(-value);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("doubles are not rounded to float before", H, bfloat16, float16) {
  int wrong = 0;
  at_every_boundary<H>([&](float middle) {
    // Of the same float as the tie, but on one side of it.
    for (const double value :
         {static_cast<double>(middle) * (1 + 0x1p-50), static_cast<double>(middle) * (1 - 0x1p-50)})
      wrong += H(value).to_bits() != pattern_of<H>(value);
  });
  for (const double value : {1e300, -1e300, 1e-300, -1e-300, 0x1p-1074, 65519.999999999993, 3.3961775292304601e38})
    wrong += H(value).to_bits() != pattern_of<H>(value);
  for (const int value : {0, 1, -1, 257, -259, 2049, 2051, 65519, 65520, 16777219, -2147483647 - 1})
    wrong += H(value).to_bits() != pattern_of<H>(value);
  CHECK(H(4294967295U).to_bits() == pattern_of<H>(4294967295.0));
  CHECK(wrong == 0);
}

#if defined(__FLT16_MANT_DIG__) && !defined(__clang__)
TEST_CASE("float16 is the compiler's") {
  __extension__ using native = _Float16;
  int wrong = 0;
  for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
    const auto theirs = static_cast<float>(std::bit_cast<native>(static_cast<std::uint16_t>(pattern)));
    if (!std::isnan(theirs)) wrong += bits(theirs) != bits(half<float16>(pattern));
  }
  at_every_boundary<float16>([&](float value) {
    wrong += float16(value).to_bits() != std::bit_cast<std::uint16_t>(static_cast<native>(value));
  });
  CHECK(wrong == 0);
}
#endif

TEST_CASE_TEMPLATE("what std::numeric_limits says", H, bfloat16, float16) {
  using limits = std::numeric_limits<H>;
  using d = definition<H>;
  CHECK(limits::max_exponent == d::bias + 1);
  CHECK(limits::min_exponent == 2 - d::bias);
  CHECK(float(limits::max()) == std::ldexp(2 - std::ldexp(1.0, 1 - d::digits), d::bias));
  CHECK(limits::lowest() == -limits::max());
  CHECK(float(limits::min()) == std::ldexp(1.0, limits::min_exponent - 1));
  CHECK(float(limits::denorm_min()) == std::ldexp(1.0, limits::min_exponent - d::digits));
  CHECK(float(limits::epsilon()) == std::ldexp(1.0, 1 - d::digits));
  CHECK(float(limits::round_error()) == 0.5F);
  CHECK(std::isinf(float(limits::infinity())));
  CHECK(std::isnan(float(limits::quiet_NaN())));
  CHECK(std::isnan(float(limits::signaling_NaN())));
  CHECK((limits::quiet_NaN().to_bits() & limits::signaling_NaN().to_bits()) == limits::infinity().to_bits());
  // As the standard has them for its own types of these formats.
  CHECK(limits::digits10 == (d::digits == 8 ? 2 : 3));
  CHECK(limits::max_digits10 == (d::digits == 8 ? 4 : 5));
  CHECK(limits::max_exponent10 == (d::digits == 8 ? 38 : 4));
  CHECK(limits::min_exponent10 == (d::digits == 8 ? -37 : -4));
}

TEST_CASE_TEMPLATE("arithmetic and comparison are those of float", H, bfloat16, float16) {
  for (unsigned a = 0; a < 0x10000; a += 1021) {
    for (unsigned b = 3; b < 0x10000; b += 509) {
      const H x = half<H>(a), y = half<H>(b);
      const float u = x, v = y;
      if (std::isnan(u) || std::isnan(v)) {
        CHECK_FALSE((x == y || x < y || x >= y));
        CHECK(x != y);
        CHECK(std::isnan(float(x + y)));
        continue;
      }
      CHECK((x < y) == (u < v));
      CHECK((x == y) == (u == v));
      CHECK((x >= y) == (u >= v));
      H sum = x;
      sum += y;
      CHECK(sum.to_bits() == (x + y).to_bits());
      if (!std::isnan(u + v)) CHECK((x + y).to_bits() == H(u + v).to_bits());
      if (!std::isnan(u - v)) CHECK((x - y).to_bits() == H(u - v).to_bits());
      if (!std::isnan(u * v)) CHECK((x * y).to_bits() == H(u * v).to_bits());
      if (!std::isnan(u / v)) CHECK((x / y).to_bits() == H(u / v).to_bits());
    }
  }
}

TEST_CASE_TEMPLATE("minimum and maximum are those of float, bit for bit", H, bfloat16, float16) {
  const unsigned nan = std::numeric_limits<H>::quiet_NaN().to_bits();
  const unsigned infinity = std::numeric_limits<H>::infinity().to_bits();
  std::vector<unsigned> patterns{0, 1, 2, infinity - 1, infinity, nan, nan + 1, nan + 0x11, infinity + 1};
  for (unsigned pattern = 0x101; pattern < 0x8000; pattern += 0x6FF) patterns.push_back(pattern);
  for (std::size_t i = 0, n = patterns.size(); i < n; ++i) patterns.push_back(patterns[i] | 0x8000U);
  for (const unsigned a : patterns) {
    for (const unsigned b : patterns) {
      const H x = half<H>(a), y = half<H>(b);
      const unsigned least = tutti::minimum{}(x, y).to_bits(), most = tutti::maximum{}(x, y).to_bits();
      if (std::isnan(float(x)) || std::isnan(float(y))) {
        // Of two the left one.
        CHECK(least == (std::isnan(float(x)) ? a : b));
        CHECK(most == least);
      } else {
        CHECK(least == H(tutti::minimum{}(float(x), float(y))).to_bits());
        CHECK(most == H(tutti::maximum{}(float(x), float(y))).to_bits());
      }
    }
  }
}

TEST_CASE_TEMPLATE("identities", H, bfloat16, float16) {
  static_assert(tutti::is_commutative_v<std::plus<>, H> && tutti::is_commutative_v<std::multiplies<H>, H> &&
                tutti::is_commutative_v<tutti::minimum, H> && tutti::is_commutative_v<tutti::average, H> &&
                !tutti::is_commutative_v<std::minus<>, H> && !tutti::is_commutative_v<std::logical_or<>, H>);
  CHECK(float(tutti::identity<std::plus<>, H>::value) == 0.0F);
  CHECK(float(tutti::identity<std::multiplies<H>, H>::value) == 1.0F);
  CHECK(tutti::identity<tutti::minimum, H>::value == std::numeric_limits<H>::infinity());
  CHECK(tutti::identity<tutti::maximum, H>::value == -std::numeric_limits<H>::infinity());
  CHECK_FALSE(tutti::identity<std::bit_and<>, H>::known);
}
