// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/owned_array.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

template <class List>
std::vector<int> values(List& list) {
  return {list.begin(), list.end()};
}

struct counted {
  inline static int alive = 0;
  inline static int refuse_at = -1;
  counted() {
    if (alive == refuse_at) throw std::runtime_error("refused");
    ++alive;
  }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
};

struct alignas(128) two_lines {
  std::atomic<int> value{7};
};

static_assert(!std::copyable<tutti::owned_array<int>> && std::movable<tutti::owned_array<int>>);
static_assert(!std::copyable<tutti::array_list<int>> && std::movable<tutti::array_list<int>>);

}  // namespace

TEST_CASE("an owned array begins with zeros, or as its type begins") {
  tutti::owned_array<std::uint64_t> zeros(100);
  CHECK(zeros.size() == 100);
  for (const std::uint64_t zero : zeros) CHECK(zero == 0);
  tutti::owned_array<two_lines> lines(3);
  for (const two_lines& line : lines) {
    CHECK(line.value.load() == 7);
    CHECK(reinterpret_cast<std::uintptr_t>(&line) % 128 == 0);
  }
  tutti::owned_array<int> none;
  CHECK(none.size() == 0);
  CHECK(none.begin() == none.end());
}

TEST_CASE("what lies in one array is in no pair of cache lines that another is in") {
  constexpr std::uintptr_t pair = tutti::detail::apart_bytes;
  for (const std::size_t size : {std::size_t{1}, std::size_t{127}, std::size_t{128}, std::size_t{129}}) {
    CAPTURE(size);
    const tutti::owned_array<std::byte> arrays[] = {
        tutti::owned_array<std::byte>(size), tutti::owned_array<std::byte>(size), tutti::owned_array<std::byte>(size)};
    const std::vector<char> others[] = {std::vector<char>(1), std::vector<char>(24), std::vector<char>(100)};
    std::vector<std::uintptr_t> pairs;
    for (const auto& array : arrays) {
      const auto first = reinterpret_cast<std::uintptr_t>(array.begin());
      CHECK(first % pair == 0);
      for (std::uintptr_t at = first; at < first + size; at += pair) pairs.push_back(at / pair);
    }
    for (const auto& other : others) pairs.push_back(reinterpret_cast<std::uintptr_t>(other.data()) / pair);
    std::sort(pairs.begin(), pairs.end() - 3);
    CHECK(std::adjacent_find(pairs.begin(), pairs.end() - 3) == pairs.end() - 3);
    for (auto other = pairs.end() - 3; other != pairs.end(); ++other)
      CHECK_FALSE(std::binary_search(pairs.begin(), pairs.end() - 3, *other));
  }
}

TEST_CASE("a moved array takes its objects along") {
  tutti::owned_array<int> first(2);
  first[1] = 5;
  const int* const where = first.data();
  tutti::owned_array<int> second = std::move(first);
  CHECK(second.data() == where);
  CHECK(second[1] == 5);
  tutti::owned_array<int> third(9);
  third = std::move(second);
  CHECK(third.data() == where);
  CHECK(third.size() == 2);
  auto& same = third;
  third = std::move(same);
  CHECK(third[1] == 5);
}

TEST_CASE("an owned array destroys what it holds, once, also where making it fails") {
  {
    tutti::owned_array<counted> first(3);
    CHECK(counted::alive == 3);
    tutti::owned_array<counted> second(2);
    second = std::move(first);
    CHECK(counted::alive == 3);
  }
  CHECK(counted::alive == 0);
  counted::refuse_at = 2;
  CHECK_THROWS_AS(tutti::owned_array<counted>(4), std::runtime_error);
  CHECK(counted::alive == 0);
}

TEST_CASE("a list keeps what is pushed, in order, while it grows") {
  tutti::array_list<int> list;
  CHECK(list.empty());
  for (int i = 0; i < 1000; ++i) list.push_back(i);
  CHECK(list.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(list[static_cast<std::size_t>(i)] == i);
  CHECK(list.back() == 999);
  list.pop_back();
  CHECK(list.back() == 998);
}

TEST_CASE("values can be taken out of and put into the middle of a list") {
  tutti::array_list<int> list;
  for (int i = 0; i < 5; ++i) list.push_back(i);
  list.erase(list.begin() + 1);
  CHECK(values(list) == std::vector{0, 2, 3, 4});
  list.erase(list.end() - 1);
  list.erase(list.begin());
  CHECK(values(list) == std::vector{2, 3});
  list.insert(0, 8);
  list.insert(3, 9);
  list.insert(1, list[2]);
  CHECK(values(list) == std::vector{8, 3, 2, 3, 9});
}

TEST_CASE("a value that lies in the list can be pushed when it is full") {
  tutti::array_list<int> list;
  list.push_back(42);
  for (int i = 0; i < 40; ++i) list.push_back(list[0]);
  CHECK(values(list) == std::vector<int>(41, 42));
}

TEST_CASE("a cleared list keeps its memory") {
  tutti::array_list<int> list;
  list.reserve(50);
  const int* const where = list.begin();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) list.push_back(i);
    CHECK(list.begin() == where);
    list.clear();
    CHECK(list.empty());
  }
}

TEST_CASE("a moved list takes its values along") {
  tutti::array_list<int> list;
  list.push_back(3);
  tutti::array_list<int> other = std::move(list);
  CHECK(values(other) == std::vector{3});
}
