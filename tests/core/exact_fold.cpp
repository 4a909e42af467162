// SPDX-License-Identifier: BSL-1.0

// The quick ways to exact sums give the bits of `exact_sum`, whichever is taken.

#include <tutti/core/exact_fold.hpp>

#include <tutti/core/bfloat16.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/exact_reference.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace {

template <class T>
using bits_of = typename tutti::detail::unsigned_of<sizeof(T)>::type;
template <class T>
using vectors = std::vector<std::vector<T>>;

/// How many results are not those of `exact_sum`, for out of place and for `out` being each source in turn.
template <class T>
int wrong(const vectors<T>& values, bool streaming = false) {
  const std::size_t n = values[0].size();
  const int sources = static_cast<int>(values.size());
  std::vector<T> expected;
  for (std::size_t i = 0; i < n; ++i) {
    tutti::exact_sum<T> sum;
    for (const std::vector<T>& source : values) sum.add(source[i]);
    expected.push_back(sum.value());
  }
  int count = 0;
  for (std::size_t place = 0; place <= values.size(); ++place) {
    vectors<T> data = values;
    std::vector<T> apart(n);
    std::vector<const T*> source;
    for (const std::vector<T>& one : data) source.push_back(one.data());
    std::vector<T>& out = place < values.size() ? data[place] : apart;
    tutti::detail::fold_exactly(out.data(), source.data(), sources, n, streaming);
    for (std::size_t i = 0; i < n; ++i)
      count += std::bit_cast<bits_of<T>>(out[i]) != std::bit_cast<bits_of<T>>(expected[i]);
  }
  return count;
}

/// A value of any significand whose exponent field lies in a range, or with some luck a zero.
template <class T>
T value_between(std::mt19937_64& random, int first, int last) {
  using format = tutti::detail::float_format<T>;
  const std::uint64_t r = random();
  if (r % 61 == 0) return std::bit_cast<T>(static_cast<bits_of<T>>(r % 2 == 0 ? 0 : format::sign));
  const auto field = static_cast<std::uint64_t>(first) + random() % static_cast<std::uint64_t>(last - first + 1);
  const std::uint64_t fraction = random() & (format::hidden - 1U);
  const std::uint64_t round = r % 3 == 0 ? fraction & (format::hidden / 8 * 7) : r % 7 == 0 ? 0 : fraction;
  return std::bit_cast<T>(
      static_cast<bits_of<T>>(field << (format::digits - 1) | round | (r >> 40 & 1 ? format::sign : bits_of<T>{0})));
}

/// All bits but the sign and the last.
template <class T>
T nearly_minus(T value) {
  const auto bits = std::bit_cast<bits_of<T>>(value);
  return std::bit_cast<T>(static_cast<bits_of<T>>(bits ^ tutti::detail::float_format<T>::sign ^ 1U));
}

template <class T>
vectors<T> random_values(std::mt19937_64& random, int sources, std::size_t n, int first, int spread) {
  vectors<T> result(static_cast<std::size_t>(sources), std::vector<T>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::vector<T>& source : result) source[i] = value_between<T>(random, first, first + spread);
    // Now and then all, or all but the last place, cancels.
    if (sources > 1 && random() % 4 == 0) result[1][i] = -result[0][i];
    if (sources > 1 && random() % 4 == 0) result[1][i] = nearly_minus(result[0][i]);
  }
  return result;
}

/// Spreads on both sides of what fits, at both ends and in the middle of the range.
template <class T>
int wrong_at_limits(int fits) {
  constexpr int special = tutti::detail::float_format<T>::special;
  std::mt19937_64 random(5);
  int count = 0;
  for (const int sources : {1, 2, 3, 4, 5, 8, 9, 16, 17}) {
    for (int spread :
         {0, 1, 5, fits - 6, fits - 5, fits - 4, fits - 3, fits - 2, fits - 1, fits, fits + 1, fits + 20}) {
      for (const int first : {0, 1, 22, 23, 24, 25, special / 2, special - 2 - spread, special - 1 - spread})
        count += wrong(random_values<T>(random, sources, 40, first, spread));
    }
  }
  return count;
}

}  // namespace

TEST_CASE("floats whose exponents are as far apart as a double can hold, and farther") {
  CHECK(wrong_at_limits<float>(53 - 24) == 0);
}

TEST_CASE("doubles whose exponents are as far apart as 128 bits can hold, and farther") {
  CHECK(wrong_at_limits<double>(127 - 53) == 0);
}

TEST_CASE_TEMPLATE("ties that only the last place of a small value breaks", T, float, double) {
  constexpr int digits = std::numeric_limits<T>::digits;
  int count = 0;
  for (const std::size_t sources : {4U, 5U, 6U, 8U, 9U, 16U, 17U, 33U}) {
    vectors<T> values(sources, std::vector<T>(160));
    const double large = 1.75 * static_cast<double>(sources - 3);
    for (std::size_t i = 0; i < 160; ++i) {
      // The sum is large, half a unit in its last place, and one unit in the last place of 2^-small.
      const auto small = static_cast<int>(i / 2) + (digits == 24 ? 0 : 40);
      for (std::vector<T>& source : values) source[i] = T{1.75};
      values[1][i] = static_cast<T>(std::ldexp(1.0, std::ilogb(large) - digits));
      values[sources - 2][i] = static_cast<T>(std::ldexp(1 + std::ldexp(1.0, 1 - digits), -small));
      values[sources - 1][i] = static_cast<T>(-std::ldexp(1.0, -small));
      if (i % 2 != 0) {
        values[sources - 2][i] = -values[sources - 2][i];
        values[sources - 1][i] = -values[sources - 1][i];
      }
    }
    count += wrong(values);
  }
  CHECK(count == 0);
}

TEST_CASE("a type without a quick way") {
  std::mt19937_64 random(6);
  CHECK(wrong(random_values<tutti::bfloat16>(random, 5, 300, 0, 254)) == 0);
}

TEST_CASE_TEMPLATE("every length", T, float, double) {
  std::mt19937_64 random(7);
  for (const int n : {0, 1, 7, 8, 9, 63, 64, 65, 255, 256, 257, 700}) {
    CHECK(wrong(random_values<T>(random, 3, static_cast<std::size_t>(n), 100, 10)) == 0);
    CHECK(wrong(random_values<T>(random, 3, static_cast<std::size_t>(n), 100, 10), true) == 0);
  }
}

TEST_CASE_TEMPLATE("special values among others", T, float, double) {
  using limits = std::numeric_limits<T>;
  std::mt19937_64 random(8);
  const T specials[] = {limits::infinity(),
                        -limits::infinity(),
                        limits::quiet_NaN(),
                        limits::max(),
                        limits::lowest(),
                        limits::denorm_min(),
                        limits::min(),
                        -limits::min(),
                        T{0},
                        -T{0},
                        T{1},
                        -T{1},
                        limits::epsilon() / 2,
                        limits::max() / 2};
  for (const int sources : {1, 2, 3, 6}) {
    vectors<T> values = random_values<T>(random, sources, 600, 100, 8);
    for (std::size_t i = 0; i < 600; ++i) {
      for (std::vector<T>& source : values)
        if (random() % 2 == 0 || i < 200) source[i] = specials[random() % std::size(specials)];
    }
    CHECK(wrong(values) == 0);
  }
  // Minus zeros alone.
  CHECK(wrong(vectors<T>(3, std::vector<T>(20, -T{0}))) == 0);
}

TEST_CASE_TEMPLATE("the sums are those of school arithmetic", T, float, double) {
  std::mt19937_64 random(9);
  for (const int spread : {3, 20, 60}) {
    const vectors<T> values = random_values<T>(random, 7, 200, 90, spread);
    std::vector<const T*> source;
    for (const std::vector<T>& one : values) source.push_back(one.data());
    std::vector<T> out(200);
    tutti::detail::fold_exactly(out.data(), source.data(), 7, 200, false);
    for (std::size_t i = 0; i < 200; ++i) {
      test::exact_reference<T> sum;
      for (const std::vector<T>& one : values) sum.add(one[i]);
      CHECK(out[i] == sum.rounded());
    }
  }
}

TEST_CASE_TEMPLATE("the processor's mode changes nothing", T, float, double) {
  std::mt19937_64 random(10);
  const vectors<T> near = random_values<T>(random, 4, 300, 120, 12), small = random_values<T>(random, 2, 300, 0, 30);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    std::fesetround(mode);
    const int count = wrong(near) + wrong(small);
    std::fesetround(FE_TONEAREST);
    CHECK(count == 0);
  }
#if defined(__SSE2__)
  const unsigned usual = _mm_getcsr();
  _mm_setcsr(usual | 0x8040U);  // subnormal results are flushed, and operands taken, to zero
  const int count = wrong(near) + wrong(small);
  _mm_setcsr(usual);
  CHECK(count == 0);
#endif
}
