// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/set_size.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <random>

using tutti::block_set;
using tutti::layout;
using tutti::size_of;

namespace {

std::size_t size_one_by_one(const layout& l, block_set set) {
  std::size_t sum = 0;
  for (int i = 0; i < set.count; ++i) sum += l.size(set.at(i, l.blocks()));
  return sum;
}

int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

}  // namespace

static_assert(size_of(layout(10, 4), block_set{0, 2, 2}) == 5);
static_assert(size_of(layout(10, 4), block_set{3, 1, 2}) == 5);  // blocks 3 and 0
static_assert(size_of(layout(8, 1 << 20), block_set{1, 2, 1 << 19}) == 4);

TEST_CASE("the size of a set is the sum of its blocks, for every set of few blocks") {
  for (int blocks = 1; blocks <= 9; ++blocks) {
    for (std::size_t count : {0u, 1u, 5u, 9u, 20u, 27u}) {
      const layout l(count, blocks);
      for (int first = -blocks; first < 2 * blocks; ++first) {
        for (int stride = -2 * blocks; stride <= 2 * blocks; ++stride) {
          if (stride == 0) continue;
          const int most = blocks / gcd(blocks, stride < 0 ? -stride : stride);  // a set names no block twice
          for (int n = 1; n <= most; ++n) {
            const block_set set{first, stride, n};
            if (size_of(l, set) == size_one_by_one(l, set)) continue;
            CAPTURE(blocks);
            CAPTURE(count);
            CAPTURE(first);
            CAPTURE(stride);
            CAPTURE(n);
            FAIL_CHECK(size_of(l, set) << " is not " << size_one_by_one(l, set));
          }
        }
      }
    }
  }
}

TEST_CASE("the size of a set is the sum of its blocks, for sets that go round many times") {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const int blocks = 1 + static_cast<int>(random() % 3000);
    const int stride = 1 + static_cast<int>(random() % 100'000);
    const int most = blocks / gcd(blocks, stride);
    const int sign = random() % 2 == 0 ? 1 : -1;
    const block_set set{static_cast<int>(random() % 3000), sign * stride,
                        1 + static_cast<int>(random() % static_cast<unsigned>(most))};
    const layout l(random() % 10'000, blocks);
    CHECK(size_of(l, set) == size_one_by_one(l, set));
  }
}

TEST_CASE("vectors of many gigabytes and sets of a million blocks do not overflow") {
  constexpr int blocks = (1 << 20) - 1;
  const layout l((std::size_t{1} << 42) + 5, blocks);
  const block_set set{3, 524'287, blocks - 1};  // all but one, in an order that goes round half a million times
  CHECK(size_of(l, set) == size_one_by_one(l, set));
}
