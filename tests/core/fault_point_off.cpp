// SPDX-License-Identifier: BSL-1.0

// Without TUTTI_FAULT_POINTS, fault points are nothing.

#include <tutti/core/fault_point.hpp>

#include <doctest/doctest.h>

#include <string>

#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED(...) TEXT_OF(__VA_ARGS__)

namespace {

/// Nothing that is not constant is in it.
constexpr int after_a_point(bool taken) {
  if (taken) TUTTI_FAULT_POINT("test.point");
  TUTTI_FAULT_RANK(no_such_name);
  return taken ? 2 : 1;
}
static_assert(after_a_point(false) == 1 && after_a_point(true) == 2);

}  // namespace

// Nor is anything declared.
namespace tutti {
inline constexpr int fault = 1;
}

TEST_CASE("a fault point expands to nothing") {
  CHECK(std::string(EXPANDED(TUTTI_FAULT_POINT("test.point"))) == "static_cast<void>(0)");
  CHECK(std::string(EXPANDED(TUTTI_FAULT_RANK(3))) == "static_cast<void>(0)");
  CHECK(tutti::fault == 1);
}
