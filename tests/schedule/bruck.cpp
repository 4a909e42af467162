// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/bruck.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::bruck>());

TEST_CASE("bruck is proved for all collectives, sizes and roots") {
  check_route<tutti::bruck>(512);
  CHECK(prove<tutti::bruck>() == 9);
}

TEST_CASE("bruck costs ceil(log2 p) rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) check_route_costs<tutti::bruck>(size, ceil_log2(size));
}

TEST_CASE("all-to-all by Bruck sends each block once for each binary digit of its way") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    long long digits = 0;
    for (int way = 1; way < size; ++way) {
      for (int rest = way; rest > 0; rest /= 2) digits += rest % 2;
    }
    CHECK(cost<alltoall, tutti::bruck>(size).rounds == ceil_log2(size));
    CHECK(cost<alltoall, tutti::bruck>(size).sent == digits);
    if ((size & (size - 1)) == 0) CHECK(digits == size / 2 * ceil_log2(size));
  }
}
