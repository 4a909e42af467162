// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/circulant.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::circulant>());

TEST_CASE("circulant is proved for all collectives, sizes and roots") {
  check_route<tutti::circulant>(512);
  CHECK(prove<tutti::circulant>() == 9);
}

TEST_CASE("circulant costs ceil(log2 p) rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) check_route_costs<tutti::circulant>(size, ceil_log2(size));
}
