// SPDX-License-Identifier: BSL-1.0

#include <tutti/core/descriptor.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>
#include <type_traits>
#include <utility>

using tutti::detail::descriptor_owner;

namespace {

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

int opened() {
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  return descriptor;
}

}  // namespace

static_assert(!std::is_copy_constructible_v<descriptor_owner> && !std::is_copy_assignable_v<descriptor_owner>);
static_assert(std::is_nothrow_move_constructible_v<descriptor_owner>);
static_assert(std::is_nothrow_move_assignable_v<descriptor_owner>);

TEST_CASE("a descriptor is closed once, by its last owner") {
  const int first = opened();
  const int second = opened();
  {
    descriptor_owner a(first);
    CHECK(a.get() == first);
    descriptor_owner b = std::move(a);
    CHECK(is_open(first));
    b = descriptor_owner(second);
    CHECK_FALSE(is_open(first));
    CHECK(is_open(second));
    descriptor_owner& same = b;
    b = std::move(same);
    CHECK(is_open(second));
    CHECK(b.get() == second);
  }
  CHECK_FALSE(is_open(second));
}

TEST_CASE("none is owned to begin with, after a reset, and after release") {
  descriptor_owner none;
  CHECK_FALSE(none);
  CHECK(none.get() < 0);
  const int one = opened();
  none.reset(one);
  CHECK(none);
  CHECK(none.release() == one);
  CHECK_FALSE(none);
  CHECK(is_open(one));
  none.reset(one);
  none.reset();
  CHECK_FALSE(none);
  CHECK_FALSE(is_open(one));
}
