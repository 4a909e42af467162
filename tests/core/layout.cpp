// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/layout.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

// Sizes and offsets are std::size_t all the way, so vectors of more than 2^31 elements divide as small ones do.
static_assert(std::same_as<decltype(tutti::layout(0, 1).size(0)), std::size_t>);
static_assert(std::same_as<decltype(tutti::layout(0, 1).offset(0)), std::size_t>);
static_assert(std::same_as<decltype(tutti::layout(0, 1).count()), std::size_t>);

namespace {

constexpr std::size_t beyond = (std::size_t{1} << 33) + 5;
static_assert(tutti::layout(beyond, 1).size(0) == beyond);
static_assert(tutti::layout(beyond, 3).size(0) == 2'863'311'533 && tutti::layout(beyond, 3).size(2) == 2'863'311'532);
static_assert(tutti::layout(beyond, 3).offset(2) == std::size_t{2'863'311'533} + 2'863'311'532);
static_assert(tutti::layout(std::numeric_limits<std::size_t>::max(), 16).offset(15) ==
              std::numeric_limits<std::size_t>::max() - std::numeric_limits<std::size_t>::max() / 16);

}  // namespace

TEST_CASE("blocks follow one another without a gap and differ by one element at most, larger ones first") {
  for (int blocks = 1; blocks <= 17; ++blocks) {
    for (std::size_t count = 0; count <= 60; ++count) {
      CAPTURE(blocks);
      CAPTURE(count);
      const tutti::layout divided(count, blocks);
      CHECK(divided.count() == count);
      CHECK(divided.blocks() == blocks);
      std::size_t end = 0;
      for (int b = 0; b < blocks; ++b) {
        CHECK(divided.offset(b) == end);
        CHECK(divided.size(b) == count / static_cast<std::size_t>(blocks) +
                                     (static_cast<std::size_t>(b) < count % static_cast<std::size_t>(blocks) ? 1 : 0));
        if (b > 0) CHECK(divided.size(b) <= divided.size(b - 1));
        end += divided.size(b);
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("more blocks than elements: the last ones are empty") {
  constexpr tutti::layout divided(3, 8);
  static_assert(divided.size(2) == 1 && divided.size(3) == 0 && divided.size(7) == 0);
  static_assert(divided.offset(3) == 3 && divided.offset(7) == 3);
}
