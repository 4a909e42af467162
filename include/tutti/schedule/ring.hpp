// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>

#include <algorithm>

namespace tutti {

/// Ring: every block walks the ring once, one neighbour a round. p-1 rounds, n(p-1)/p bytes per rank; allreduce twice
/// that. Reduce and broadcast are the chain. Does not keep rank order. Source: Patarasuk and Yuan 2009.
struct ring {
  static constexpr std::string_view name = "ring";
  static constexpr int rounds(int size) { return size - 1; }
  static constexpr hop entry(int size, int k) { return {1, one_block(size - 1 - k)}; }
};

namespace detail {
template <>
struct remaining_way<ring> {
  static constexpr int before(int size, int k, int h) { return std::min(h, size - 1 - k); }
};
}  // namespace detail

static_assert(proved<ring, 1, 8>);

}  // namespace tutti
