// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/exact_sum.hpp>
#include <tutti/core/float_format.hpp>
#include <tutti/core/operation.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace tutti {

/// In what type reductions by `Op` work on values of T. Where it is another than T every contribution is converted to
/// it, what is folded is of this type throughout the collective, and the result is converted back once, all by
/// `static_cast`. It is void where `Op` is not defined for T.
///
/// | Op                         | T                            | accumulator                       |
/// |----------------------------|------------------------------|-----------------------------------|
/// | std::plus, std::multiplies | types of 16 bits             | float                             |
/// | average                    | types of 16 bits             | float                             |
/// | average                    | float, double, long double   | T                                 |
/// | average                    | integers but bool            | an integer of 64 bits, or 128     |
/// | reproducible_sum           | types of 16, 32 and 64 bits  | exact_sum<T>                      |
/// | any other                  | any other                    | T                                 |
///
/// Types of 16 bits are `float16`, `bfloat16` and every other that `std::numeric_limits` calls binary IEEE 754. Users
/// may specialise it for types and operations of their own; `Op` must then take two accumulators.
///
/// Cost: where an algorithm folds the contributions of all ranks at once (`flat`, `naive`, `single_master`) elements
/// travel as T and are accumulated in cache. Other algorithms send accumulators, and keep one for each element.
template <class T, class Op>
struct accumulator {
  using type = T;
};

template <class T, class Op>
using accumulator_t = typename accumulator<T, Op>::type;

template <detail::half_float T, class Op>
requires(detail::is_one_of<Op, T, std::plus, std::multiplies>) struct accumulator<T, Op> {
  using type = float;
};

namespace detail {
#if defined(__SIZEOF_INT128__)
__extension__ using wide_signed = __int128;
__extension__ using wide_unsigned = unsigned __int128;
#endif
}  // namespace detail

template <class T>
struct accumulator<T, average> {
  using type = void;
};
template <std::floating_point T>
struct accumulator<T, average> {
  using type = std::conditional_t<sizeof(T) == 2, float, T>;
};
template <detail::half_float T>
requires(!std::floating_point<T>) struct accumulator<T, average> {
  using type = float;
};
template <std::integral T>
requires(!std::is_same_v<T, bool> && sizeof(T) <= 4) struct accumulator<T, average> {
  using type = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
};
#if defined(__SIZEOF_INT128__)
template <std::integral T>
requires(sizeof(T) == 8) struct accumulator<T, average> {
  using type = std::conditional_t<std::is_signed_v<T>, detail::wide_signed, detail::wide_unsigned>;
};
#endif

template <class T>
struct accumulator<T, reproducible_sum> {
  using type = void;
};
template <detail::binary_float T>
struct accumulator<T, reproducible_sum> {
  using type = exact_sum<T>;
};

/// The type in which `average` sums values of T exactly, or as `std::plus<>` does for floating point.
template <class T>
using average_accumulator_t = accumulator_t<T, average>;

namespace detail {
/// What folds accumulators.
template <class T, class Op>
struct accumulating {
  using type = Op;
};
template <class T>
struct accumulating<T, average> {
  using type = std::plus<>;
};
template <class T>
struct accumulating<T, reproducible_sum> {
  using type = std::plus<>;
};
template <class T>
requires(!std::is_same_v<T, accumulator_t<T, std::plus<T>>>) struct accumulating<T, std::plus<T>> {
  using type = std::plus<>;
};
template <class T>
requires(!std::is_same_v<T, accumulator_t<T, std::multiplies<T>>>) struct accumulating<T, std::multiplies<T>> {
  using type = std::multiplies<>;
};
template <class T, class Op>
using accumulating_t = typename accumulating<T, Op>::type;
}  // namespace detail

}  // namespace tutti
