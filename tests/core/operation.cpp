// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/accumulator.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace {

struct quaternion {
  double w, x, y, z;
};
struct product {
  quaternion operator()(const quaternion& a, const quaternion&) const { return a; }
};
struct needs_change {  // callable only where it is not const
  int calls = 0;
  int operator()(int a, int b) {
    ++calls;
    return a + b;
  }
};

struct looks_complex {
  using value_type = float;
  float r, i;
  float real() const { return r; }
  float imag() const { return i; }
};
struct has_vector_part {
  using value_type = float;
  float parts[4];
  float real() const { return parts[0]; }
  const float* imag() const { return parts + 1; }
};
struct has_one_more {
  using value_type = double;
  double r, i, error;
  double real() const { return r; }
  double imag() const { return i; }
};

// ---- Which callables are operations ---------------------------------------------------------------------------------
static_assert(tutti::operation<std::plus<>, int> && tutti::operation<std::plus<int>, int>);
static_assert(tutti::operation<product, quaternion> && tutti::operation<needs_change, int>);
static_assert(tutti::operation<int (*)(int, int), int>);
static_assert(tutti::operation<std::plus<>, char>);  // int converts to char
static_assert(!tutti::operation<std::plus<>, quaternion>);
static_assert(!tutti::operation<int (*)(int), int> && !tutti::operation<int, int>);
static_assert(!tutti::operation<tutti::average, int>);  // not a function of two values

// ---- Which of them commute ------------------------------------------------------------------------------------------
template <class T, class... Ops>
constexpr bool commute = (tutti::is_commutative_v<Ops, T> && ...);
template <class T, class... Ops>
constexpr bool none_commutes = !(tutti::is_commutative_v<Ops, T> || ...);

static_assert(
    commute<int, std::plus<>, std::plus<int>, std::multiplies<>, tutti::minimum, tutti::maximum, std::bit_and<>,
            std::bit_or<>, std::bit_xor<int>, std::logical_and<>, std::logical_or<>, tutti::average>);
static_assert(commute<double, std::plus<>, std::multiplies<double>, tutti::minimum, tutti::maximum, tutti::average>);
static_assert(commute<bool, std::logical_and<>, std::logical_or<>>);
static_assert(commute<std::complex<float>, std::plus<>, std::multiplies<>, std::plus<std::complex<float>>>);
static_assert(commute<std::complex<long double>, std::multiplies<>> && commute<looks_complex, std::plus<>>);
static_assert(none_commutes<std::complex<double>, std::minus<>, tutti::minimum, std::logical_and<>>);
static_assert(none_commutes<has_vector_part, std::multiplies<>> && none_commutes<has_one_more, std::multiplies<>>);
static_assert(none_commutes<int, std::minus<>, std::divides<>, std::plus<double>, int (*)(int, int), needs_change>);
// A user's plus may be anything: concatenation, say.
static_assert(none_commutes<quaternion, product, std::plus<>, std::multiplies<>, tutti::minimum>);
static_assert(commute<quaternion, tutti::commutative<product>> && commute<int, tutti::commutative<needs_change>>);

// ---- Identities -----------------------------------------------------------------------------------------------------
template <class Op, class T>
constexpr bool is_identity(T value) {
  static_assert(tutti::identity<Op, T>::known);
  return tutti::identity<Op, T>::value == value;
}
static_assert(is_identity<std::plus<>>(0) && is_identity<std::plus<double>>(0.0));
static_assert(is_identity<std::multiplies<>>(1) && is_identity<std::multiplies<>>(1.0F));
static_assert(is_identity<tutti::minimum>(std::numeric_limits<int>::max()));
static_assert(is_identity<tutti::maximum>(std::numeric_limits<int>::min()));
static_assert(is_identity<tutti::maximum>(0U) && is_identity<tutti::minimum>(~0U));
static_assert(is_identity<tutti::minimum>(std::numeric_limits<float>::infinity()));
static_assert(is_identity<tutti::maximum>(-std::numeric_limits<double>::infinity()));
static_assert(is_identity<std::bit_and<>>(-1) && is_identity<std::bit_and<>>(std::uint8_t{255}));
static_assert(is_identity<std::bit_and<>>(true) && is_identity<std::bit_and<>>(std::uint16_t{65535}));
static_assert(!tutti::identity<std::bit_and<>, float>::known && none_commutes<double, std::bit_and<>, std::bit_xor<>>);
static_assert(is_identity<std::bit_or<>>(0) && is_identity<std::bit_xor<>>(0));
static_assert(is_identity<std::logical_and<>>(true) && is_identity<std::logical_or<>>(false));
static_assert(!tutti::identity<product, quaternion>::known && !tutti::identity<std::minus<>, int>::known);
static_assert(!tutti::identity<tutti::commutative<product>, quaternion>::known);

// ---- In what an average is summed -----------------------------------------------------------------------------------
static_assert(std::same_as<tutti::average_accumulator_t<float>, float>);
static_assert(std::same_as<tutti::average_accumulator_t<long double>, long double>);
static_assert(std::same_as<tutti::average_accumulator_t<std::int8_t>, std::int64_t>);
static_assert(std::same_as<tutti::average_accumulator_t<std::uint32_t>, std::uint64_t>);
static_assert(sizeof(tutti::average_accumulator_t<std::int64_t>) == 16);
static_assert(sizeof(tutti::average_accumulator_t<std::uint64_t>) == 16);
static_assert(std::is_void_v<tutti::average_accumulator_t<bool>>);
static_assert(std::is_void_v<tutti::average_accumulator_t<quaternion>>);

template <class T>
void check_nan() {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T infinity = std::numeric_limits<T>::infinity();
  for (const T other : {T{0}, T{-1}, infinity, -infinity}) {
    CHECK(std::isnan(tutti::minimum{}(nan, other)));
    CHECK(std::isnan(tutti::minimum{}(other, nan)));
    CHECK(std::isnan(tutti::maximum{}(nan, other)));
    CHECK(std::isnan(tutti::maximum{}(other, nan)));
  }
  // Of two NaNs the left one, so that rank order decides and every rank has the same bits.
  CHECK(std::signbit(tutti::minimum{}(-nan, nan)));
  CHECK_FALSE(std::signbit(tutti::minimum{}(nan, -nan)));
  CHECK(std::signbit(tutti::maximum{}(-nan, nan)));
  CHECK_FALSE(std::signbit(tutti::maximum{}(nan, -nan)));
}

template <class T>
void check_zeros() {
  const T zero = 0;
  CHECK(std::signbit(tutti::minimum{}(zero, -zero)));
  CHECK(std::signbit(tutti::minimum{}(-zero, zero)));
  CHECK_FALSE(std::signbit(tutti::minimum{}(zero, zero)));
  CHECK(std::signbit(tutti::maximum{}(-zero, -zero)));
  CHECK_FALSE(std::signbit(tutti::maximum{}(zero, -zero)));
  CHECK_FALSE(std::signbit(tutti::maximum{}(-zero, zero)));
}

}  // namespace

TEST_CASE("minimum and maximum give NaN if either side is one") {
  check_nan<float>();
  check_nan<double>();
  check_nan<long double>();
}

TEST_CASE("minus zero is less than plus zero") {
  check_zeros<float>();
  check_zeros<double>();
}

TEST_CASE("minimum and maximum of ordinary values") {
  static_assert(tutti::minimum{}(2, 3) == 2 && tutti::minimum{}(3, 2) == 2);
  static_assert(tutti::maximum{}(2, 3) == 3 && tutti::maximum{}(3, 2) == 3);
  static_assert(tutti::minimum{}(-0.5, 0.25) == -0.5 && tutti::maximum{}(-0.5, 0.25) == 0.25);
  static_assert(tutti::minimum{}(std::uint8_t{200}, std::uint8_t{100}) == 100);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(tutti::minimum{}(infinity, 1.0) == 1.0);
  CHECK(tutti::maximum{}(-infinity, 1.0) == 1.0);
}

TEST_CASE("identities change nothing") {
  for (const int x : {std::numeric_limits<int>::min(), -7, 0, 1, 12345, std::numeric_limits<int>::max()}) {
    CHECK(tutti::minimum{}(tutti::identity<tutti::minimum, int>::value, x) == x);
    CHECK(tutti::maximum{}(x, tutti::identity<tutti::maximum, int>::value) == x);
    CHECK((x & tutti::identity<std::bit_and<>, int>::value) == x);
    CHECK((x | tutti::identity<std::bit_or<>, int>::value) == x);
    CHECK((x ^ tutti::identity<std::bit_xor<>, int>::value) == x);
  }
}

TEST_CASE("commutative calls the operation it promises for") {
  tutti::commutative difference(std::minus<>{});
  CHECK(difference(7, 3) == 4);
  tutti::commutative counting(needs_change{});
  CHECK(counting(2, 3) == 5);
  static_assert(tutti::operation<decltype(difference), double> && !tutti::operation<decltype(counting), quaternion>);
}
