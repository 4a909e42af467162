// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the conformance suite sends and folds: element types, the values that ranks contribute, and what must come out,
// folded one after the other in rank order.

#include <tutti/tutti.hpp>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collective/conformance.hpp"
#include "deadline.hpp"

namespace conformance {

/// Twelve bytes of three kinds.
struct triple {
  std::int32_t a;
  float b;
  std::uint32_t c;
  friend triple operator+(const triple& x, const triple& y) { return {x.a + y.a, x.b + y.b, x.c + y.c}; }
};
static_assert(sizeof(triple) == 12);

/// 2x2 matrices of integers modulo 2^32: their product is associative and does not commute.
struct matrix {
  std::uint32_t a, b, c, d;
  friend matrix operator*(const matrix& x, const matrix& y) {
    return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
  }
};

/// A whole line of the cache, and aligned like one.
struct alignas(64) line {
  std::uint32_t words[16];
  friend line operator+(const line& x, const line& y) {
    line sum;
    for (std::size_t i = 0; i < 16; ++i) sum.words[i] = x.words[i] + y.words[i];
    return sum;
  }
};

using add = tutti::commutative<std::plus<>>;
inline const add sum_of_structs{std::plus<>{}};

inline std::uint32_t noise(std::size_t a, std::size_t b, std::size_t c = 0) {
  std::uint64_t x = (a + 1) * 0x9E3779B97F4A7C15ULL + (b + 1) * 0xC2B2AE3D27D4EB4FULL + (c + 1) * 0x165667B19E3779F9ULL;
  x = (x ^ (x >> 29)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::uint32_t>(x >> 32);
}

/// Element i of rank r. Numbers are whole and small enough for every sum, and with `small` for every product, to be
/// exact in every order; what is no number has all bits at random.
template <class T>
T element(int rank, std::size_t i, bool small = false) {
  const auto r = static_cast<std::size_t>(rank);
  const auto number = [&](std::size_t part) {
    constexpr std::array<int, 4> factors{-2, -1, 1, 2};
    const std::uint32_t n = noise(r, i, part);
    return small ? factors[n % 4] : static_cast<int>(n % 2001) - 1000;
  };
  if constexpr (std::is_same_v<T, triple>) {
    return {number(0), static_cast<float>(number(1)), noise(r, i, 2)};
  } else if constexpr (std::is_same_v<T, matrix>) {
    return {noise(r, i, 0), noise(r, i, 1), noise(r, i, 2), noise(r, i, 3)};
  } else if constexpr (std::is_same_v<T, line>) {
    T result;
    for (std::size_t w = 0; w < 16; ++w) result.words[w] = noise(r, i, w);
    return result;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {static_cast<float>(number(0)), static_cast<float>(number(1))};
  } else if constexpr (std::is_unsigned_v<T> || sizeof(T) == 1) {
    return static_cast<T>(noise(r, i));
  } else {
    return static_cast<T>(number(0));
  }
}

/// The values of every rank, for collectives that only move them.
template <class T>
class values {
 public:
  values(int ranks, std::size_t count) : of_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = of_[static_cast<std::size_t>(rank)];
      mine.reserve(count);
      for (std::size_t i = 0; i < count; ++i) mine.push_back(element<T>(rank, i));
    }
  }
  /// The first `count` of that rank's.
  std::span<const T> of(int rank, std::size_t count) const {
    return std::span<const T>(of_[static_cast<std::size_t>(rank)]).first(count);
  }

 private:
  std::vector<std::vector<T>> of_;
};

/// The first `count` values of every rank, one rank after the other.
template <class T>
std::vector<T> joined(const values<T>& data, int ranks, std::size_t count) {
  std::vector<T> result;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::span<const T> block = data.of(rank, count);
    result.insert(result.end(), block.begin(), block.end());
  }
  return result;
}

/// What the operation makes of the ranks' values: the left fold in rank order.
template <class T, class Op>
T folded(const std::vector<T>& in_rank_order, Op op) {
  if constexpr (std::is_same_v<Op, tutti::average>) {
    tutti::average_accumulator_t<T> sum = 0;
    for (const T& value : in_rank_order) sum += value;
    return static_cast<T>(sum / static_cast<tutti::average_accumulator_t<T>>(in_rank_order.size()));
  } else {
    T result = in_rank_order[0];
    for (std::size_t r = 1; r < in_rank_order.size(); ++r) result = static_cast<T>(op(result, in_rank_order[r]));
    return result;
  }
}

/// The values of every rank and their fold.
template <class T, class Op>
class contributions {
 public:
  contributions(int ranks, std::size_t count, Op op) : op_(op), of_(static_cast<std::size_t>(ranks)) {
    // Products grow fast.
    constexpr bool small = std::is_same_v<Op, std::multiplies<>> || std::is_same_v<Op, std::multiplies<T>>;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = of_[static_cast<std::size_t>(rank)];
      mine.reserve(count);
      for (std::size_t i = 0; i < count; ++i) mine.push_back(element<T>(rank, i, small));
    }
    fold_.reserve(count);
    std::vector<T> each(of_.size());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t r = 0; r < of_.size(); ++r) each[r] = of_[r][i];
      fold_.push_back(folded<T>(each, op));
    }
  }

  const Op& operation() const { return op_; }
  /// The first `count` values of that rank.
  std::span<const T> of(int rank, std::size_t count) const {
    return std::span<const T>(of_[static_cast<std::size_t>(rank)]).first(count);
  }
  /// The first `count` of the fold.
  std::span<const T> fold(std::size_t count) const { return std::span<const T>(fold_).first(count); }

 private:
  Op op_;
  std::vector<std::vector<T>> of_;
  std::vector<T> fold_;
};

/// The fold of the first ranks, up to each rank.
template <class T, class Op>
class prefixes {
 public:
  prefixes(const contributions<T, Op>& data, int ranks, std::size_t count) {
    Op op = data.operation();
    for (int rank = 0; rank < ranks; ++rank) {
      const std::span<const T> mine = data.of(rank, count);
      std::vector<T> sum(mine.begin(), mine.end());
      for (std::size_t i = 0; rank > 0 && i < count; ++i) sum[i] = static_cast<T>(op(up_to_.back()[i], mine[i]));
      up_to_.push_back(std::move(sum));
    }
  }
  /// The first `count` elements of the fold of the ranks up to `last`.
  std::span<const T> up_to(int last, std::size_t count) const {
    return std::span<const T>(up_to_[static_cast<std::size_t>(last)]).first(count);
  }

 private:
  std::vector<std::vector<T>> up_to_;
};

/// One element type with one operation.
template <class T, class Op>
struct kind {
  using type = T;
  Op op;
};

/// `f(kind)` for every element type and every operation that is tried with few algorithms; under a sanitizer, where
/// compiling takes long, for fewer of them.
template <class F>
void for_each_kind(F&& f) {
  f(kind<float, std::plus<>>{});
  f(kind<int, tutti::average>{});
  f(kind<char, std::plus<char>>{});
  f(kind<double, tutti::minimum>{});
  f(kind<line, add>{sum_of_structs});
  if constexpr (!test::sanitized) {
    f(kind<int, std::multiplies<>>{});
    f(kind<unsigned, std::bit_xor<>>{});
    f(kind<float, tutti::maximum>{});
    f(kind<float, tutti::average>{});
    f(kind<std::complex<float>, std::plus<>>{});
    f(kind<triple, add>{sum_of_structs});
  }
}

}  // namespace conformance
