// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>

#include <algorithm>

namespace tutti {

/// Ring in both directions: every block walks the shorter way, one neighbour a round. ceil((p-1)/2) rounds of two
/// messages, n(p-1)/p bytes per rank, half of them each way; allreduce twice that. Does not keep rank order. For rings
/// whose links carry both directions at once.
struct bidirectional_ring {
  static constexpr std::string_view name = "bidirectional_ring";
  static constexpr int rounds(int size) { return size / 2; }
  static constexpr int ports(int, int) { return 2; }
  static constexpr hop entry(int size, int k, int port) {
    const int up = size / 2 - k;
    const int down = (size - 1) / 2 - k;
    return port == 0 ? hop{1, one_block(up)} : hop{size - 1, {size - down, 1, down > 0 ? 1 : 0}};
  }
};

namespace detail {
template <>
struct remaining_way<bidirectional_ring> {
  static constexpr int before(int size, int k, int h) {
    if (h <= size / 2) return std::min(h, size / 2 - k);
    const int down = std::min(size - h, std::max((size - 1) / 2 - k, 0));
    return down == 0 ? 0 : size - down;
  }
};
}  // namespace detail

static_assert(proved<bidirectional_ring, 1, 8>);

}  // namespace tutti
