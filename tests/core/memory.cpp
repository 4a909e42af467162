// SPDX-License-Identifier: BSL-1.0

// Memory that the system refuses is an error of the library's, which names the bytes and what they were for.

#include <tutti/core/memory.hpp>

#include <tutti/core/arena.hpp>
#include <tutti/core/owned_array.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

#include "counted_new.hpp"

namespace {

struct large {
  std::uint64_t values[100];
};

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const tutti::resource_error& e) {
    CHECK(e.code().value() == static_cast<int>(tutti::errc::resource));
    return e.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("more bytes than can be counted are refused before the system is asked") {
  CHECK(tutti::detail::bytes_for<large>(3) == 2400);
  CHECK(tutti::detail::bytes_for<large>(SIZE_MAX / 800) == SIZE_MAX / 800 * 800);
  CHECK(tutti::detail::bytes_for<large>(SIZE_MAX / 800 + 1) == SIZE_MAX);
  const std::string all = std::to_string(SIZE_MAX);
  CHECK(refusal([] { tutti::owned_array<large> array(SIZE_MAX / 2); }) ==
        "the system refused " + all + " bytes of memory for " + std::string(tutti::type_name<large>()) +
            ": out of resources");
  // Rounded up to whole cache lines, so many bytes are few.
  CHECK(refusal([] {
          tutti::owned_array<std::uint64_t> array(SIZE_MAX / 8);
        }).starts_with("the system refused " + std::to_string(SIZE_MAX - 7) + " bytes of memory for "));
  const std::string most = std::to_string(SIZE_MAX - 63);
  CHECK(refusal([] {
          tutti::arena().take(SIZE_MAX - 63);
        }).starts_with("the system refused " + most + " bytes of memory for scratch"));
}

TEST_CASE("what makes may throw anything else, and what it returns comes back") {
  CHECK(tutti::detail::allocating(4, "an int", [] { return 42; }) == 42);
  CHECK_THROWS_AS(tutti::detail::allocating(4, "an int", []() -> int { throw std::logic_error("no"); }),
                  std::logic_error);
  CHECK(refusal([] {
          tutti::detail::allocating(4, "an int", []() -> int { throw std::bad_alloc(); });
        }).starts_with("the system refused 4 bytes of memory for an int"));
  CHECK(refusal([] {
          tutti::detail::allocating(4, "an int", []() -> int { throw std::bad_array_new_length(); });
        }).starts_with("the system refused 4 bytes of memory for an int"));
}

TEST_CASE("what was there before stays where more is refused; not under a sanitizer that allocates" *
          doctest::skip(!counting)) {
  tutti::arena scratch;
  std::byte* const first = scratch.take(100);
  first[99] = std::byte{7};
  refused = 1;
  CHECK(refusal([&] { scratch.take(100'000); }) ==
        "the system refused 100096 bytes of memory for scratch: out of resources");
  CHECK(refused == 0);
  CHECK(first[99] == std::byte{7});
  CHECK(scratch.take(100) == first + 128);
  CHECK(scratch.take(100'000) != nullptr);

  tutti::array_list<int> list;
  for (int i = 0; i < 8; ++i) list.push_back(i);
  refused = 1;
  CHECK(refusal([&] { list.push_back(8); }) == "the system refused 64 bytes of memory for int: out of resources");
  CHECK(list.size() == 8);
  CHECK(list.back() == 7);
  list.push_back(8);
  CHECK(list.back() == 8);

  refused = 1;
  CHECK(refusal([] { tutti::owned_array<std::uint64_t> array(10, "ten numbers"); }) ==
        "the system refused 80 bytes of memory for ten numbers: out of resources");
}
