// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// PAT, parallel aggregated trees: distances are powers of two, smallest first, towards lower ranks, so that most
/// blocks stay among neighbours. q = ceil(log2 p) rounds for any p, n(p-1)/p bytes per rank; allreduce twice that. Does
/// not keep rank order. Reduce and broadcast are the classical binomial trees. For tapered networks. Source: Jeaugey,
/// arXiv 2506.20252.
struct pat {
  static constexpr std::string_view name = "pat";
  static constexpr int rounds(int size) { return detail::ceil_log2(size); }
  static constexpr hop entry(int size, int k) {
    const int distance = 1 << k;
    return {size - distance, {size - distance, -2 * distance, (size + distance - 1) >> (k + 1)}};
  }
};

namespace detail {
template <>
struct remaining_way<pat> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int size, int k, int h) {
    const int down = h == 0 ? 0 : (size - h) & ~((1 << k) - 1);
    return down == 0 ? 0 : size - down;
  }
};
}  // namespace detail

static_assert(proved<pat, 1, 8>);

}  // namespace tutti
