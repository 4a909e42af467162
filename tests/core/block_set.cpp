// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/block_set.hpp>

#include <doctest/doctest.h>

#include <climits>
#include <set>
#include <vector>

namespace {

std::vector<int> members(tutti::block_set set, int blocks) {
  std::vector<int> result;
  for (int i = 0; i < set.count; ++i) result.push_back(set.at(i, blocks));
  return result;
}

}  // namespace

TEST_CASE("modulo is never negative") {
  for (int size = 1; size <= 9; ++size) {
    for (int value = -30; value <= 30; ++value) {
      const int m = tutti::modulo(value, size);
      CHECK(m >= 0);
      CHECK(m < size);
      CHECK((value - m) % size == 0);
    }
  }
  static_assert(tutti::modulo(-1, 7) == 6 && tutti::modulo(7, 7) == 0 && tutti::modulo(INT_MIN, 2) == 0);
}

TEST_CASE("a place is its rank and its size") {
  static_assert(tutti::place{1, 4} == tutti::place{1, 4});
  static_assert(tutti::place{1, 4} != tutti::place{2, 4});
  static_assert(tutti::place{1, 4} != tutti::place{1, 5});
}

TEST_CASE("a block set names its blocks modulo the number of blocks") {
  CHECK(members({5, 1, 4}, 7) == std::vector<int>{5, 6, 0, 1});
  CHECK(members({0, 2, 4}, 7) == std::vector<int>{0, 2, 4, 6});
  CHECK(members({5, 3, 3}, 7) == std::vector<int>{5, 1, 4});
  CHECK(members({1, -2, 4}, 7) == std::vector<int>{1, 6, 4, 2});
  CHECK(members({-1, -1, 3}, 5) == std::vector<int>{4, 3, 2});
  CHECK(members({12, 1, 2}, 5) == std::vector<int>{2, 3});
  CHECK(members({3, 1, 0}, 5).empty());
}

TEST_CASE("a stride that has no divisor in common with the number of blocks reaches them all") {
  for (int stride : {-5, -2, -1, 1, 2, 3, 5}) {
    const std::vector<int> all = members({4, stride, 7}, 7);
    CHECK(std::set<int>(all.begin(), all.end()).size() == 7);
  }
}

TEST_CASE("members are found where 32 bits would overflow") {
  constexpr int blocks = 1'000'003;
  constexpr tutti::block_set wide{blocks - 1, blocks - 2, blocks};
  static_assert(wide.at(blocks - 1, blocks) == static_cast<int>(((blocks - 1LL) * (blocks - 2) + blocks - 1) % blocks));
  static_assert(tutti::block_set{0, -(blocks - 2), blocks}.at(blocks - 1, blocks) == blocks - 2);
}

TEST_CASE("a shifted set names the blocks as far away") {
  constexpr tutti::block_set set{2, 3, 4};
  for (int by = -8; by <= 8; ++by) {
    for (int i = 0; i < set.count; ++i) CHECK(set.shifted(by).at(i, 11) == tutti::modulo(set.at(i, 11) + by, 11));
  }
  static_assert(set.shifted(1) == tutti::block_set{3, 3, 4});
}

TEST_CASE("one block and all blocks") {
  CHECK(members(tutti::one_block(3), 5) == std::vector<int>{3});
  CHECK(members(tutti::all_blocks(4), 4) == std::vector<int>{0, 1, 2, 3});
  static_assert(tutti::all_blocks(1) == tutti::one_block(0));
}
