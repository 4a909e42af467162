// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tutti {

namespace detail {

/// The sum of floor((a * i + b) / m) for i in [0, n). Requires m > 0 and a, b >= 0. Euclid's steps, so O(log m).
constexpr long long floor_sum(long long n, long long m, long long a, long long b) {
  long long sum = 0;
  for (;;) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const long long top = a * n + b;
    if (top < m) return sum;
    n = top / m;
    b = top % m;
    const long long step = m;
    m = a;
    a = step;
  }
}

/// ceil(way / stride), without a division where the stride is a power of two, as it often is. Requires `way >= 0`.
constexpr long long steps_over(long long way, long long stride) {
  const long long top = way + stride - 1;
  if ((stride & (stride - 1)) == 0) return top >> std::countr_zero(static_cast<unsigned long long>(stride));
  return top / stride;
}

/// How many of first, first + stride, ... are below `limit`. Requires stride > 0 and nothing negative.
constexpr long long count_below(long long limit, long long first, long long stride, long long count) {
  if (first >= limit) return 0;
  return std::min(steps_over(limit - first, stride), count);
}

/// How many blocks of the set `{begin, by, count}` are below `limit`, `0 <= limit <= blocks`. The set comes in parts,
/// in registers: one that was just made waits in memory for its parts when it is read whole.
constexpr long long blocks_below(int limit, int begin, int by, int count, int blocks) {
  const bool descending = by < 0;
  const int first = block_set{begin, by, count}.at(descending ? count - 1 : 0, blocks);
  const long long stride = descending ? -static_cast<long long>(by) : by;
  const long long last = first + (count - 1) * stride;
  if (last < blocks) return count_below(limit, first, stride, count);
  if (last < 2LL * blocks && stride < blocks) {  // goes past the end once
    const long long before = steps_over(blocks - first, stride);
    return count_below(limit, first, stride, before) +
           count_below(limit, first + before * stride - blocks, stride, count - before);
  }
  const long long step = stride % blocks;
  return count + floor_sum(count, blocks, step, first) - floor_sum(count, blocks, step, first + blocks - limit);
}

}  // namespace detail

/// Elements in all the blocks of the set. O(1) for sets that go past the last block at most once, else O(log blocks),
/// however many blocks there are.
TUTTI_ALWAYS_INLINE constexpr std::size_t size_of(const layout& l, block_set set) {
  if (set.count == l.blocks()) return l.count();
  const std::size_t least = static_cast<std::size_t>(set.count) * l.even_size();
  if (l.even()) return least;
  const int larger = static_cast<int>(l.count() - l.even_size() * static_cast<std::size_t>(l.blocks()));
  return least + static_cast<std::size_t>(detail::blocks_below(larger, set.first, set.stride, set.count, l.blocks()));
}

}  // namespace tutti
