// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// Bruck: distances are powers of two, largest first, so a block travels the binary digits of its displacement.
/// q = ceil(log2 p) rounds for any p, n(p-1)/p bytes per rank; all-to-all q rounds and about n/2 q bytes. Does not keep
/// rank order. Source: Bruck et al. 1997.
struct bruck {
  static constexpr std::string_view name = "bruck";
  static constexpr int rounds(int size) { return detail::ceil_log2(size); }
  static constexpr hop entry(int size, int k) {
    const int distance = 1 << (rounds(size) - 1 - k);
    return {distance, {distance, 1, k == 0 ? size - distance : distance}};
  }
};

namespace detail {
template <>
struct remaining_way<bruck> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int size, int k, int h) { return h & ((1 << (bruck::rounds(size) - k)) - 1); }
};
}  // namespace detail

static_assert(proved<bruck, 1, 8>);

}  // namespace tutti
