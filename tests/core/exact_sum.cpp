// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/exact_sum.hpp>

#include <tutti/core/bfloat16.hpp>
#include <tutti/core/float16.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "core/exact_reference.hpp"

namespace {

using tutti::bfloat16;
using tutti::exact_sum;
using tutti::float16;

template <class T>
using bits_of = typename tutti::detail::unsigned_of<sizeof(T)>::type;

template <class T>
constexpr bool same_bits(T a, T b) {
  return std::bit_cast<bits_of<T>>(a) == std::bit_cast<bits_of<T>>(b);
}

/// Any finite number, all exponents alike.
template <class T>
T any_finite(std::mt19937_64& random) {
  for (;;) {
    const T value = std::bit_cast<T>(static_cast<bits_of<T>>(random()));
    if (std::isfinite(static_cast<double>(value))) return value;
  }
}
template <class T>
std::vector<T> any_finite(std::mt19937_64& random, std::size_t n) {
  std::vector<T> result(n);
  for (T& value : result) value = any_finite<T>(random);
  return result;
}

template <class T>
exact_sum<T> one_by_one(const std::vector<T>& values) {
  exact_sum<T> sum;
  for (const T value : values) sum.add(value);
  return sum;
}
template <class T>
T reference(const std::vector<T>& values) {
  test::exact_reference<T> sum;
  for (const T value : values) sum.add(value);
  return sum.rounded();
}

/// As a reduction among ranks that are one tree: halves and quarters, of which each has some of the values.
template <class T>
exact_sum<T> in_a_tree(std::span<const T> values) {
  if (values.size() < 2) return values.empty() ? exact_sum<T>{} : exact_sum<T>(values[0]);
  return in_a_tree(values.first(values.size() / 2)) + in_a_tree(values.subspan(values.size() / 2));
}

template <class T>
T sum_of(std::initializer_list<double> values) {
  exact_sum<T> sum;
  for (const double value : values) sum.add(static_cast<T>(value));
  return sum.value();
}

// ---- What it is -----------------------------------------------------------------------------------------------------
template <class T, std::size_t Bytes, int Room>
constexpr bool is_like =
    std::is_trivially_copyable_v<exact_sum<T>>&& std::has_unique_object_representations_v<exact_sum<T>> &&
    sizeof(exact_sum<T>) == Bytes&& exact_sum<T>::room_bits ==
        Room&& tutti::operation<std::plus<>, exact_sum<T>>&& tutti::is_commutative_v<
            std::plus<>, exact_sum<T>>&& tutti::is_commutative_v<std::plus<exact_sum<T>>, exact_sum<T>> &&
    !tutti::is_commutative_v<std::minus<>, exact_sum<T>>;
static_assert(is_like<float16, 16, 85> && is_like<bfloat16, 40, 56> && is_like<float, 40, 40> &&
              is_like<double, 272, 75>);
static_assert(!std::is_convertible_v<float, exact_sum<float>> && !std::is_convertible_v<exact_sum<float>, float>);
static_assert(tutti::identity<std::plus<>, exact_sum<float>>::value == exact_sum<float>{});
static_assert((exact_sum(1e30F) + exact_sum(1.0F) + exact_sum(-1e30F)).value() == 1.0F);
static_assert((exact_sum(1e300) + exact_sum(-1e-300) + exact_sum(-1e300)).value() == -1e-300);

}  // namespace

TEST_CASE_TEMPLATE("one value comes back as it is", T, float, double, float16, bfloat16) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const T value = i < 1000 ? any_finite<T>(random) : std::bit_cast<T>(static_cast<bits_of<T>>(i - 990));
    if (static_cast<double>(value) == 0) continue;
    CHECK(same_bits(exact_sum<T>(value).value(), value));
    CHECK(same_bits(static_cast<T>(exact_sum<T>(-value)), -value));
  }
}

TEST_CASE_TEMPLATE("sums are exact and rounded once, in every order and grouping", T, float, double, float16,
                   bfloat16) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    std::vector<T> values = any_finite<T>(random, 2 + random() % 90);
    // Every second time all but little cancels.
    if (round % 2 == 0) {
      const std::size_t n = values.size();
      for (std::size_t i = 1; i < n; ++i) values.push_back(-values[i]);
    }
    const T expected = reference(values);
    const exact_sum<T> sum = one_by_one(values);
    CHECK(same_bits(sum.value(), expected));
    for (int order = 0; order < 3; ++order) {
      std::shuffle(values.begin(), values.end(), random);
      CHECK(one_by_one(values) == sum);
      CHECK(in_a_tree(std::span<const T>(values)) == sum);
      exact_sum<T> many;
      many.add(values);
      CHECK(many == sum);
    }
  }
}

TEST_CASE_TEMPLATE("values of one size sum exactly", T, float, double, float16, bfloat16) {
  // Carries through whole limbs, and sums near zero of both signs.
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<T> values(3 + random() % 60);
    const int exponent = static_cast<int>(random() % 21) - 13;
    for (T& value : values) {
      const int mantissa = static_cast<int>(random() % 255) - 127;
      value = static_cast<T>(static_cast<float>(std::ldexp(mantissa, exponent)));
    }
    const exact_sum<T> sum = one_by_one(values);
    CHECK(same_bits(sum.value(), reference(values)));
    CHECK(in_a_tree(std::span<const T>(values)) == sum);
  }
}

TEST_CASE("ties go to even, and anything below breaks them") {
  const double half = 0x1p-24;  // of the last place of 1.0F
  CHECK(sum_of<float>({1, half}) == 1.0F);
  CHECK(sum_of<float>({1, half, 0x1p-149}) == 1.0F + 0x1p-23F);
  CHECK(sum_of<float>({1, half, -0x1p-149}) == 1.0F);
  CHECK(sum_of<float>({1 + 0x1p-23, half}) == 1.0F + 0x1p-22F);
  CHECK(sum_of<float>({1 + 0x1p-23, half, -0x1p-149}) == 1.0F + 0x1p-23F);
  CHECK(sum_of<float>({-1, -half}) == -1.0F);
  CHECK(sum_of<float>({-1, -half, -0x1p-149}) == -1.0F - 0x1p-23F);
  CHECK(sum_of<float>({-1 - 0x1p-23, -half, 0x1p-149}) == -1.0F - 0x1p-23F);
  CHECK(sum_of<double>({1, 0x1p-53}) == 1.0);
  CHECK(sum_of<double>({1, 0x1p-53, 0x1p-1074}) == 1.0 + 0x1p-52);
  CHECK(sum_of<double>({-1 - 0x1p-52, -0x1p-53, 0x1p-1074}) == -1.0 - 0x1p-52);
  // The significand runs over into the next power of two.
  CHECK(sum_of<float>({2 - 0x1p-23, half}) == 2.0F);
}

TEST_CASE_TEMPLATE("subnormal sums are exact", T, float, double, float16, bfloat16) {
  using limits = std::numeric_limits<T>;
  const T least = limits::denorm_min();
  exact_sum<T> sum(limits::min());
  sum.add(-least);
  CHECK(
      same_bits(sum.value(), std::bit_cast<T>(static_cast<bits_of<T>>(std::bit_cast<bits_of<T>>(limits::min()) - 1))));
  sum.add(-limits::min());
  CHECK(same_bits(sum.value(), T(-least)));
  sum.add(least);
  CHECK(same_bits(sum.value(), static_cast<T>(0.0F)));
}

TEST_CASE_TEMPLATE("what is too large is an infinity, but only at the end", T, float, double, float16, bfloat16) {
  using limits = std::numeric_limits<T>;
  const T most = limits::max();
  const int last = limits::max_exponent - limits::digits;  // the exponent of its last place
  const T half = static_cast<T>(std::ldexp(1.0, last - 1));
  exact_sum<T> sum(most);
  sum.add(half);  // a tie between the largest number and what would be next, which is even
  CHECK(same_bits(sum.value(), limits::infinity()));
  sum.add(-limits::denorm_min());
  CHECK(same_bits(sum.value(), most));
  for (int i = 0; i < 100; ++i) sum.add(most);
  CHECK(same_bits(sum.value(), limits::infinity()));
  for (int i = 0; i < 202; ++i) sum.add(-most);
  CHECK(same_bits(sum.value(), -limits::infinity()));
  for (int i = 0; i < 101; ++i) sum.add(most);
  sum.add(-half);
  CHECK(same_bits(sum.value(), T(-limits::denorm_min())));
}

TEST_CASE_TEMPLATE("there is room for as many values as is said", T, float, double, float16, bfloat16) {
  using limits = std::numeric_limits<T>;
  for (const T extreme : {limits::max(), limits::lowest()}) {
    // 2^room of the largest.
    exact_sum<T> sum(extreme);
    for (int i = 0; i < exact_sum<T>::room_bits; ++i) sum += sum;
    CHECK(std::isinf(static_cast<double>(sum.value())));
    CHECK(std::signbit(static_cast<double>(sum.value())) == std::signbit(static_cast<double>(extreme)));
    // Less all of them but one.
    exact_sum<T> less(static_cast<T>(-extreme));
    exact_sum<T> all_but_one;
    for (int i = 0; i < exact_sum<T>::room_bits; ++i) {
      all_but_one += less;
      less += less;
    }
    CHECK((sum + all_but_one) == exact_sum<T>(extreme));
    CHECK((sum + less) == exact_sum<T>{});
  }
}

TEST_CASE_TEMPLATE("infinities and NaN, in every order", T, float, double, float16, bfloat16) {
  using limits = std::numeric_limits<T>;
  const T infinity = limits::infinity(), nan = limits::quiet_NaN(), most = limits::max();
  const T one = static_cast<T>(1.0F);
  struct sample {
    std::vector<T> values;
    T expected;
  };
  std::vector<sample> samples{{{infinity, one, -one}, infinity},
                              {{-infinity, one, most}, -infinity},
                              {{infinity, infinity, -most}, infinity},
                              {{infinity, -infinity, one}, nan},
                              {{nan, one, one}, nan},
                              {{nan, infinity, one}, nan},
                              {{-nan, -infinity, one}, nan},
                              {{limits::signaling_NaN(), one, most}, nan}};
  const auto by_bits = [](T a, T b) { return std::bit_cast<bits_of<T>>(a) < std::bit_cast<bits_of<T>>(b); };
  for (sample& s : samples) {
    std::sort(s.values.begin(), s.values.end(), by_bits);
    const exact_sum<T> first = one_by_one(s.values);
    do {
      CHECK(same_bits(one_by_one(s.values).value(), s.expected));
      CHECK(one_by_one(s.values) == first);
      CHECK(in_a_tree(std::span<const T>(s.values)) == first);
      // Among enough ordinary values for them to be added together.
      std::vector<T> many(100, one);
      std::copy(s.values.begin(), s.values.end(), many.begin() + 40);
      exact_sum<T> sum;
      sum.add(many);
      CHECK(same_bits(sum.value(), s.expected));
      CHECK(sum == one_by_one(many));
    } while (std::next_permutation(s.values.begin(), s.values.end(), by_bits));
  }
}

TEST_CASE_TEMPLATE("a sum that is zero is plus zero", T, float, double, float16, bfloat16) {
  const T zero = static_cast<T>(0.0F), one = static_cast<T>(1.0F);
  for (const std::vector<T>& values :
       {std::vector<T>{}, {-zero}, {-zero, -zero}, {zero, -zero}, {one, -one}, {-one, one}})
    CHECK(same_bits(one_by_one(values).value(), zero));
}

TEST_CASE("many values at once") {
  std::mt19937_64 random(4);
  for (const std::size_t n : std::initializer_list<std::size_t>{0, 1, 31, 32, 33, 64, 1000, 30'000}) {
    const std::vector<float> values = any_finite<float>(random, n);
    exact_sum<float> sum;
    sum.add(values);
    CHECK(sum == one_by_one(values));
    sum.add(values);
    CHECK(sum == one_by_one(values) + one_by_one(values));
  }
  // The same values all into the same place: as many as fit between two carries, and more.
  const std::vector<double> largest(100'000, std::numeric_limits<double>::max());
  exact_sum<double> sum;
  sum.add(largest);
  CHECK(sum == one_by_one(largest));
}
