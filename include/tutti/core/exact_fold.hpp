// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/exact_sum.hpp>
#include <tutti/core/float_format.hpp>
#include <tutti/core/fold.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tutti::detail {

// Elementwise exact sums of several vectors, rounded once, a chunk at a time: chunk elements or fewer, into `out`,
// which overlaps no source. Where an element's values are near enough to each other a number of fixed width holds their
// sum, and nothing else is needed. How near they are is read from their exponents. All others go through an
// `exact_sum`.
//
// An exponent field e > 0 stands for a whole multiple of 2^(e - 1) units and less than 2^(e - 1 + digits) units. So
// sums of p values with fields from a to b, the partial ones too, are whole multiples of 2^(a - 1) units and less than
// 2^(b - 1 + digits) p: they fit into b - a + digits + log2 p bits.

inline constexpr std::size_t exact_chunk = 256;

/// log2 of the number of values, rounded up.
constexpr int doublings_of(int values) { return static_cast<int>(std::bit_width(static_cast<unsigned>(values - 1))); }

template <class T>
T exact_element(const T* const* source, int sources, std::size_t i) {
  exact_sum<T> sum;
  for (int s = 0; s < sources; ++s) sum.add(source[s][i]);
  return sum.value();
}

template <class T>
void fold_chunk_exactly(T* out, const T* const* source, int sources, std::size_t at, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = exact_element(source, sources, at + i);
}

// ---- Floats: in a double, of 53 bits ------------------------------------------------------------------------------

/// What is known of an element while its values are added. `most` is the largest value's bits without its sign, `least`
/// the smallest's that is not zero, less 1, which makes zero the largest of all.
struct float_sums {
  alignas(64) double sum[exact_chunk];
  alignas(64) std::int32_t most[exact_chunk];
  alignas(64) std::int32_t least[exact_chunk];
};

template <class F>
inline void in_blocks(std::size_t n, F&& f) {
  std::size_t i = 0;
  for (; i + unroll <= n; i += unroll)
    for (std::size_t j = i; j < i + unroll; ++j) f(j);
  for (; i < n; ++i) f(i);
}

[[gnu::noinline]] inline void add_floats(double* __restrict sum, std::int32_t* __restrict most,
                                         std::int32_t* __restrict least, const float* __restrict in, std::size_t n) {
  in_blocks(n, [=](std::size_t i) {
    const std::int32_t size = std::bit_cast<std::int32_t>(in[i]) & 0x7FFFFFFF;
    const std::int32_t before = (size - 1) & 0x7FFFFFFF;
    sum[i] += static_cast<double>(in[i]);
    most[i] = most[i] < size ? size : most[i];
    least[i] = least[i] < before ? least[i] : before;
  });
}

/// Rounds the sums; returns a negative number if one of them may not be exact, and so marks it.
[[gnu::noinline]] inline std::int32_t round_floats(float* __restrict out, const double* __restrict sum,
                                                   const std::int32_t* __restrict most, std::int32_t* __restrict least,
                                                   std::size_t n, int sources) {
  using format = float_format<float>;
  const int doublings = doublings_of(sources);
  // What fits into 53 bits; no infinity or NaN; no value so small that it or a sum could be subnormal, which some modes
  // of the processor take for zero.
  const std::int32_t spread = 53 - format::digits - doublings;
  const std::int32_t greatest = (format::special << (format::digits - 1)) - 1;
  const std::int32_t smallest = format::digits << (format::digits - 1);
  std::int32_t any = 0;
  in_blocks(n, [=, &any](std::size_t i) {
    const std::int32_t apart = (most[i] >> (format::digits - 1)) - (least[i] >> (format::digits - 1));
    const std::int32_t wrong = (greatest - most[i]) | (least[i] - smallest) | (spread - apart);
    least[i] = wrong;
    any |= wrong;
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(sum[i]));
    out[i] = std::bit_cast<float>(bits & (0U - std::uint32_t{(bits << 1) != 0}));  // +0, however the compiler takes -0
  });
  return any;
}

/// Whether the processor rounds doubles to the nearest float.
[[gnu::noinline]] inline bool rounds_to_nearest() {
  const volatile double below = 1 + 0x1p-25, above = 1 + 0x3p-25, minus = -1 - 0x1p-25;
  return static_cast<float>(below) == 1 && static_cast<float>(above) == 1 + 0x1p-23F && static_cast<float>(minus) == -1;
}

inline void fold_chunk_exactly(float* out, const float* const* source, int sources, std::size_t at, std::size_t n) {
  float_sums sums;
  std::fill_n(sums.sum, n, 0.0);
  std::fill_n(sums.most, n, 0);
  std::fill_n(sums.least, n, 0x7FFFFFFF);
  for (int s = 0; s < sources; ++s) add_floats(sums.sum, sums.most, sums.least, source[s] + at, n);
  if (round_floats(out, sums.sum, sums.most, sums.least, n, sources) >= 0) return;
  for (std::size_t i = 0; i < n; ++i)
    if (sums.least[i] < 0) out[i] = exact_element(source, sources, at + i);
}

// ---- Doubles: in an integer of 128 bits ---------------------------------------------------------------------------

#if defined(__SIZEOF_INT128__)
__extension__ using sum_128 = __int128;
__extension__ using size_128 = unsigned __int128;

/// The number, which counts 2^scale units, as a double.
inline double rounded_double(sum_128 sum, int scale) {
  using format = float_format<double>;
  const std::uint64_t sign = sum < 0 ? format::sign : 0;
  const size_128 size = sum < 0 ? -static_cast<size_128>(sum) : static_cast<size_128>(sum);
  const auto upper = static_cast<std::uint64_t>(size >> 64), lower = static_cast<std::uint64_t>(size);
  const int length = upper != 0 ? 128 - std::countl_zero(upper) : 64 - std::countl_zero(lower);
  const int dropped = length - format::digits;
  std::uint64_t bits;
  if (size == 0) return 0;
  if (dropped <= 0) {
    // Exact: shifted as far as there are units, or to the full significand.
    const int up = std::min(-dropped, scale);
    bits = (static_cast<std::uint64_t>(scale - up) << (format::digits - 1)) + (lower << up);
  } else {
    const auto kept = static_cast<std::uint64_t>(size >> dropped);
    const size_128 rest = size & ((size_128{1} << dropped) - 1), half = size_128{1} << (dropped - 1);
    if (scale + dropped >= format::special - 1) return std::bit_cast<double>(sign | format::infinity);
    bits = (static_cast<std::uint64_t>(scale + dropped) << (format::digits - 1)) + kept;
    bits += rest > half || (rest == half && (kept & 1) != 0) ? 1U : 0U;
  }
  return std::bit_cast<double>(sign | std::min(bits, format::infinity));
}

inline void fold_chunk_exactly(double* out, const double* const* source, int sources, std::size_t at, std::size_t n) {
  using format = float_format<double>;
  const int doublings = doublings_of(sources);
  const auto field_of = [](std::uint64_t bits) {
    return static_cast<int>(bits >> (format::digits - 1)) & format::special;
  };
  for (std::size_t i = at; i < at + n; ++i) {
    int most = 0, least = format::special;
    for (int s = 0; s < sources; ++s) {
      const auto bits = std::bit_cast<std::uint64_t>(source[s][i]);
      const int field = field_of(bits);
      most = std::max(most, field);
      least = std::min(least, (bits << 1) != 0 ? std::max(field, 1) : format::special);
    }
    if (most == format::special || most - least + format::digits + doublings > 127) {
      out[i - at] = exact_element(source, sources, i);
      continue;
    }
    const int scale = least - 1;
    sum_128 sum = 0;
    for (int s = 0; s < sources; ++s) {
      const auto bits = std::bit_cast<std::uint64_t>(source[s][i]);
      if ((bits << 1) == 0) continue;
      const int field = field_of(bits);
      const std::uint64_t significand = (bits & (format::hidden - 1)) | (field != 0 ? format::hidden : 0);
      const sum_128 size = static_cast<sum_128>(significand) << (std::max(field, 1) - least);
      const sum_128 fill = -static_cast<sum_128>(bits >> 63);  // without a branch, which nobody could predict
      sum += (size ^ fill) - fill;
    }
    out[i - at] = rounded_double(sum, scale);
  }
}
#endif

/// out = the exact sums of the sources, rounded once. `out` may be one of the sources; otherwise nothing overlaps.
template <class T>
void fold_exactly(T* out, const T* const* source, int sources, std::size_t n, bool streaming) {
  alignas(64) T narrow[exact_chunk];
  const bool quick = !std::is_same_v<T, float> || (n >= 8 && rounds_to_nearest());
  for (std::size_t at = 0; at < n; at += exact_chunk) {
    const std::size_t m = std::min(n - at, exact_chunk);
    if (quick) {
      fold_chunk_exactly(narrow, source, sources, at, m);
    } else {
      for (std::size_t i = 0; i < m; ++i) narrow[i] = exact_element(source, sources, at + i);
    }
    copy_elements(out + at, narrow, m, streaming);
  }
}

}  // namespace tutti::detail
