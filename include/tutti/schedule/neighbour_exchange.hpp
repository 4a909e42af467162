// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>

namespace tutti {

/// Neighbour exchange: ranks exchange with the next and the previous rank in turn, two blocks each time. p even: p/2
/// rounds, n(p-1)/p bytes per rank; allreduce twice that. Does not keep rank order. Half of a ring's rounds over the
/// same links. Source: Chen, Zhang, Zhang, Yuan, Neighbor Exchange allgather, ICPP Workshops 2005.
struct neighbour_exchange {
  static constexpr std::string_view name = "neighbour_exchange";
  using group_type = dihedral;
  static constexpr bool supports(int size) { return size == 1 || size % 2 == 0; }
  static constexpr int rounds(int size) { return size / 2; }
  static constexpr hop entry(int size, int k) {
    const int by = k % 2 == 0 ? 1 : -1;
    const int left = rounds(size) - 1 - k;
    return {by, left == 0 ? one_block(by) : block_set{left * by, by, 2}};
  }
};

namespace detail {
/// Once under way a block comes one rank nearer, and is mirrored, each round.
template <>
struct remaining_way<neighbour_exchange> {
  static constexpr int before(int size, int k, int h) {
    if (h == 0) return 0;
    const int half = size / 2;
    const bool up = h <= half;
    const int left = up ? h : size - h;
    const int begun = half - left - ((half - left) % 2 == (up ? 0 : 1) ? 0 : 1);  // even rounds lead up
    const int walked = k - begun;
    if (walked <= 0) return h;
    if (walked >= left) return 0;
    return up == (walked % 2 == 0) ? left - walked : size - (left - walked);
  }
};
}  // namespace detail

static_assert(proved<neighbour_exchange, 1, 8>);

}  // namespace tutti
