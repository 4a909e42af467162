// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/arena.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

bool aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 64 == 0; }

}  // namespace

TEST_CASE("what is taken is aligned, writable, and apart from everything else") {
  tutti::arena scratch;
  std::vector<std::pair<std::byte*, std::size_t>> taken;
  for (std::size_t bytes = 0; bytes < 40'000; bytes = bytes * 2 + 1) {
    std::byte* const memory = scratch.take(bytes);
    CHECK(aligned(memory));
    std::memset(memory, static_cast<int>(taken.size()), bytes);
    taken.emplace_back(memory, bytes);
  }
  // Growing moved nothing and overwrote nothing.
  for (std::size_t i = 0; i < taken.size(); ++i) {
    for (std::size_t j = 0; j < taken[i].second; ++j) {
      if (taken[i].first[j] != static_cast<std::byte>(i)) FAIL("piece ", i, " was overwritten at byte ", j);
    }
  }
}

TEST_CASE("what is taken for a type has room for that many") {
  struct alignas(64) line {
    double values[8];
  };
  tutti::arena scratch;
  line* const lines = scratch.take_for<line>(10);
  CHECK(aligned(lines));
  for (int i = 0; i < 10; ++i) lines[i] = line{{static_cast<double>(i)}};
  CHECK(lines[9].values[0] == 9.0);
  CHECK(reinterpret_cast<std::byte*>(scratch.take_for<char>(1)) == reinterpret_cast<std::byte*>(lines + 10));
}

TEST_CASE("after a reset the same memory is taken again") {
  tutti::arena scratch;
  std::byte* const first = scratch.take(100);
  std::byte* const second = scratch.take(100);
  scratch.reset();
  CHECK(scratch.take(100) == first);
  CHECK(scratch.take(100) == second);
}

TEST_CASE("after a reset everything that was taken in pieces lies in one") {
  tutti::arena scratch;
  for (int i = 0; i < 10; ++i) std::memset(scratch.take(5000), i, 5000);
  scratch.reset();
  std::byte* const whole = scratch.take(50'000);
  scratch.reset();
  CHECK(scratch.take(25'000) == whole);
  CHECK(scratch.take(20'000) == whole + 25'024);  // 25 000 rounded up to a multiple of 64
}

TEST_CASE("a reset of an empty arena is nothing") {
  tutti::arena scratch;
  scratch.reset();
  CHECK(aligned(scratch.take(0)));
}

TEST_CASE("an arena can be moved and what was taken stays") {
  tutti::arena scratch;
  std::byte* const memory = scratch.take(8);
  memory[0] = std::byte{42};
  tutti::arena other = std::move(scratch);
  CHECK(memory[0] == std::byte{42});
  CHECK(other.take(8) != memory);
}
