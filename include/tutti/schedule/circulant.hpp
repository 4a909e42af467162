// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// Circulant graph: each round halves the distance, rounded up, and with it the blocks still to send. q = ceil(log2 p)
/// rounds for any p, n(p-1)/p bytes per rank, contiguous blocks; allreduce twice that. Does not keep rank order.
/// Source: Traff, arXiv 2410.14234.
struct circulant {
  static constexpr std::string_view name = "circulant";
  static constexpr int rounds(int size) { return detail::ceil_log2(size); }
  static constexpr hop entry(int size, int k) {
    const int end = ((size - 1) >> k) + 1;  // ceil(size / 2^k)
    const int half = ((size - 1) >> (k + 1)) + 1;
    return {half, {half, 1, end - half}};
  }
};

namespace detail {
template <>
struct remaining_way<circulant> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int size, int k, int h) {
    for (int i = 0; i < k; ++i) {
      if (const int half = ((size - 1) >> (i + 1)) + 1; h >= half) h -= half;
    }
    return h;
  }
};
}  // namespace detail

static_assert(proved<circulant, 1, 8>);

}  // namespace tutti
