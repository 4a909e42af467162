// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/hypercube.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::hypercube_halving>());
static_assert(route_is_proved<tutti::hypercube_doubling>());
static_assert(tutti::schedule_for<reduce_scatter, tutti::hypercube_doubling>::rank_ordered);
static_assert(tutti::schedule_for<reduce, tutti::hypercube_doubling>::rank_ordered);
static_assert(!tutti::schedule_for<reduce_scatter, tutti::hypercube_halving>::rank_ordered);

TEST_CASE("hypercube routes are proved for all collectives, powers of two and roots") {
  check_route<tutti::hypercube_halving>(512);
  check_route<tutti::hypercube_doubling>(512);
  CHECK(prove<tutti::hypercube_halving>() == 9);
  CHECK(prove<tutti::hypercube_doubling>() == 9);
}

TEST_CASE("hypercube routes say that they need a power of two") {
  CHECK(tutti::supports<tutti::hypercube_halving>(32));
  CHECK_FALSE(tutti::supports<tutti::hypercube_halving>(33));
  CHECK_FALSE(tutti::valid_route<tutti::hypercube_doubling>(6));
}

TEST_CASE("hypercube routes cost log2 p rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; size *= 2) {
    check_route_costs<tutti::hypercube_halving>(size, floor_log2(size));
    check_route_costs<tutti::hypercube_doubling>(size, floor_log2(size));
  }
}
