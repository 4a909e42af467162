// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/float_format.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

namespace tutti {

/// What can be folded with: callable with two values of T, giving something that converts to T. It must be associative,
/// or as near to it as floating-point addition is.
template <class Op, class T>
concept operation = std::copy_constructible<Op> && requires(Op& op, const T& a, const T& b) {
  { op(a, b) } -> std::convertible_to<T>;
};

namespace detail {
/// The bits of a type of 16 bits as a number that is greater if the value is, -0 and +0 told apart, and `of_nan` for a
/// NaN.
template <half_float T>
constexpr std::int16_t order_of(std::int16_t bits, std::int16_t of_nan) {
  const auto order = static_cast<std::int16_t>(bits ^ (bits >> 15 & 0x7FFF));
  return (bits & 0x7FFF) > float_format<T>::infinity ? of_nan : order;
}
/// On bits rather than values, so that loops of it vectorise.
template <half_float T>
constexpr T least_of(const T& a, const T& b) {
  const auto x = std::bit_cast<std::int16_t>(a), y = std::bit_cast<std::int16_t>(b);
  return std::bit_cast<T>(order_of<T>(y, -0x8000) < order_of<T>(x, -0x8000) ? y : x);
}
template <half_float T>
constexpr T greatest_of(const T& a, const T& b) {
  const auto x = std::bit_cast<std::int16_t>(a), y = std::bit_cast<std::int16_t>(b);
  return std::bit_cast<T>(order_of<T>(x, 0x7FFF) < order_of<T>(y, 0x7FFF) ? y : x);
}
}  // namespace detail

/// The smaller value. If either is a NaN the result is a NaN, whichever rank holds it; of -0 and +0, -0.
struct minimum {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return __builtin_signbit(a) ? a : b;
    } else if constexpr (detail::half_float<T>) {
      return detail::least_of(a, b);
    }
    return b < a ? b : a;
  }
};

/// The larger value. If either is a NaN the result is a NaN, whichever rank holds it; of -0 and +0, +0.
struct maximum {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return __builtin_signbit(a) ? b : a;
    } else if constexpr (detail::half_float<T>) {
      return detail::greatest_of(a, b);
    }
    return a < b ? b : a;
  }
};

/// The sum divided by the number of ranks. Floating-point: the sum in T, in float for types of 16 bits, then one
/// division. Integers of up to 64 bits: the exact sum in a wider type, divided, rounded toward zero; it never wraps.
/// Other types: does not compile.
struct average {};

/// The exact sum of floating-point numbers, rounded once: the same bits for every number of ranks, algorithm, order and
/// grouping. For types of 16, 32 and 64 bits (float, double, `float16`, `bfloat16`); see `exact_sum` for infinities,
/// NaN, zeros and for how many values there may be. Other types: does not compile. Integer sums are the same bits with
/// `std::plus<>`.
///
/// Cost: see `accumulator`. Algorithms that fold everything at once (`flat`, `naive`, `single_master`) send what
/// `std::plus<>` sends; the others send partial sums, of 40 bytes for a float and 272 for a double.
struct reproducible_sum {};

/// A user's promise that `op(a, b) == op(b, a)`, so that every algorithm may be used: `tutti::commutative(op)`.
template <class Op>
struct commutative {
  explicit constexpr commutative(Op op) : op_(std::move(op)) {}
  template <class T>
  requires operation<Op, T>
  constexpr T operator()(const T& a, const T& b) { return static_cast<T>(op_(a, b)); }

 private:
  [[no_unique_address]] Op op_;
};

namespace detail {
/// std::complex, whose header only programs that use it should pay for, and what looks like it.
template <class T>
concept complex_number = sizeof(T) == 2 * sizeof(typename T::value_type) && requires(const T& z) {
  requires std::is_arithmetic_v<typename T::value_type>;
  { z.real() } -> std::same_as<typename T::value_type>;
  { z.imag() } -> std::same_as<typename T::value_type>;
};
template <class T>
concept real_number = std::is_arithmetic_v<T> || half_float<T>;
template <class T>
concept number = real_number<T> || complex_number<T>;
template <class Op, class T, template <class> class... Known>
inline constexpr bool is_one_of = ((std::is_same_v<Op, Known<void>> || std::is_same_v<Op, Known<T>>) || ...);
}  // namespace detail

/// Whether the operation commutes on T. True for the standard functors and this library's on numbers and for
/// `commutative<Op>`; false for any other callable, unless the user specialises it.
template <class Op, class T>
struct is_commutative
    : std::bool_constant<std::is_same_v<Op, average> || std::is_same_v<Op, reproducible_sum> ||
                         (detail::number<T> && detail::is_one_of<Op, T, std::plus, std::multiplies>) ||
                         (detail::real_number<T> && (std::is_same_v<Op, minimum> || std::is_same_v<Op, maximum>)) ||
                         (std::is_arithmetic_v<T> && detail::is_one_of<Op, T, std::logical_and, std::logical_or>) ||
                         (std::is_integral_v<T> && detail::is_one_of<Op, T, std::bit_and, std::bit_or, std::bit_xor>)> {
};

template <class Op, class T>
struct is_commutative<commutative<Op>, T> : std::true_type {};

template <class Op, class T>
inline constexpr bool is_commutative_v = is_commutative<Op, T>::value;

/// Whether the operation rounds nothing on T, so that every order and grouping gives the same bits. True for the
/// standard functors and this library's on integers and for exact sums; false for any other callable, unless the user
/// specialises it.
template <class Op, class T>
struct is_exact
    : std::bool_constant<std::is_same_v<Op, reproducible_sum> || (std::is_integral_v<T> && is_commutative_v<Op, T>)> {};

template <class Op, class T>
inline constexpr bool is_exact_v = is_exact<Op, T>::value;

/// The identity of the operation on T: `identity<Op, T>::value` where it is known, else `identity<Op, T>::known` is
/// false. Users may specialise it.
template <class Op, class T>
struct identity {
  static constexpr bool known = false;
};

namespace detail {
template <class T>
constexpr T lowest_value() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest_value() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}
}  // namespace detail

template <class Op, class T>
requires(detail::real_number<T> &&
         (detail::is_one_of<Op, T, std::plus, std::multiplies> || std::is_same_v<Op, minimum> ||
          std::is_same_v<Op, maximum> ||
          (std::is_arithmetic_v<T> && detail::is_one_of<Op, T, std::logical_and, std::logical_or>) ||
          (std::is_integral_v<T> &&
           detail::is_one_of<Op, T, std::bit_and, std::bit_or, std::bit_xor>))) struct identity<Op, T> {
  static constexpr bool known = true;
  static constexpr T value = [] {
    if constexpr (detail::is_one_of<Op, T, std::multiplies, std::logical_and>) return static_cast<T>(1);
    if constexpr (std::is_same_v<Op, minimum>) return detail::highest_value<T>();
    if constexpr (std::is_same_v<Op, maximum>) return detail::lowest_value<T>();
    if constexpr (detail::is_one_of<Op, T, std::bit_and>) return std::is_same_v<T, bool> ? T{1} : static_cast<T>(-1);
    return static_cast<T>(0);
  }();
};

template <class Op, class T>
requires(identity<Op, T>::known) struct identity<commutative<Op>, T> : identity<Op, T> {
};

template <detail::complex_number T, class Op>
requires(detail::is_one_of<Op, T, std::plus>) struct identity<Op, T> {
  static constexpr bool known = true;
  static constexpr T value{};
};

/// The exact sum of nothing is +0.
template <class T>
requires(std::numeric_limits<T>::is_iec559) struct identity<reproducible_sum, T> {
  static constexpr bool known = true;
  static constexpr T value{};
};

}  // namespace tutti
