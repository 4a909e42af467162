// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>
#include <tutti/core/layout.hpp>

#include <algorithm>
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

/// How many of first, first + stride, ... are below `limit`. Requires stride > 0 and nothing negative.
constexpr long long count_below(long long limit, long long first, long long stride, long long count) {
  if (first >= limit) return 0;
  return stride == 1 ? std::min(limit - first, count) : std::min((limit - first + stride - 1) / stride, count);
}

/// How many blocks of the set are below `limit`, `0 <= limit <= blocks`.
constexpr long long blocks_below(int limit, block_set set, int blocks) {
  const bool descending = set.stride < 0;
  const int first = descending ? set.at(set.count - 1, blocks) : set.at(0, blocks);
  const long long stride = descending ? -static_cast<long long>(set.stride) : set.stride;
  const long long count = set.count;
  const long long last = first + (count - 1) * stride;
  if (last < blocks) return count_below(limit, first, stride, count);
  if (last < 2LL * blocks && stride < blocks) {  // goes past the end once
    const long long before = (blocks - first + stride - 1) / stride;
    return count_below(limit, first, stride, before) +
           count_below(limit, first + before * stride - blocks, stride, count - before);
  }
  const long long step = stride % blocks;
  return count + floor_sum(count, blocks, step, first) - floor_sum(count, blocks, step, first + blocks - limit);
}

}  // namespace detail

/// Elements in all the blocks of the set. O(1) for sets that go past the last block at most once, else O(log blocks),
/// however many blocks there are.
constexpr std::size_t size_of(const layout& l, block_set set) {
  if (set.count == l.blocks()) return l.count();
  const std::size_t least = static_cast<std::size_t>(set.count) * l.even_size();
  if (l.even()) return least;
  const int larger = static_cast<int>(l.count() - l.even_size() * static_cast<std::size_t>(l.blocks()));
  return least + static_cast<std::size_t>(detail::blocks_below(larger, set, l.blocks()));
}

}  // namespace tutti
