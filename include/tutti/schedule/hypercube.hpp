// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// Hypercube, farthest partners first. p a power of two: log2 p rounds, n(p-1)/p bytes per rank, contiguous blocks.
/// Does not keep rank order. Source: recursive halving of Thakur, Rabenseifner, Gropp 2005, section 4.4.
struct hypercube_halving {
  static constexpr std::string_view name = "hypercube_halving";
  using group_type = exclusive_or;
  static constexpr bool supports(int size) { return detail::is_power_of_two(size); }
  static constexpr int rounds(int size) { return detail::floor_log2(size); }
  static constexpr hop entry(int size, int k) {
    const int bit = size >> (k + 1);
    return {bit, {bit, 1, bit}};
  }
};

/// Hypercube, nearest partners first. p a power of two: log2 p rounds, n(p-1)/p bytes per rank, strided blocks.
/// Neighbouring groups of ranks meet, so rank order is kept, along the canonical tree.
struct hypercube_doubling {
  static constexpr std::string_view name = "hypercube_doubling";
  using group_type = exclusive_or;
  static constexpr bool rank_ordered = true;
  static constexpr bool canonical(int) { return true; }
  static constexpr bool supports(int size) { return detail::is_power_of_two(size); }
  static constexpr int rounds(int size) { return detail::floor_log2(size); }
  static constexpr hop entry(int size, int k) {
    const int bit = 1 << k;
    return {bit, {bit, 2 * bit, size >> (k + 1)}};
  }
};

namespace detail {
template <>
struct remaining_way<hypercube_halving> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int size, int k, int h) { return h & ((size >> k) - 1); }
};
template <>
struct remaining_way<hypercube_doubling> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int, int k, int h) { return h & ~((1 << k) - 1); }
};
}  // namespace detail

static_assert(proved<hypercube_halving, 1, 8> && proved<hypercube_doubling, 1, 8>);

}  // namespace tutti
