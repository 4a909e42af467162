// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/neighbour_exchange.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::neighbour_exchange;

static_assert(route_is_proved<neighbour_exchange>());

TEST_CASE("neighbour_exchange is proved for all collectives, even sizes and roots") {
  check_route<neighbour_exchange>(1024);
  CHECK(prove<neighbour_exchange>() == 9);
}

TEST_CASE("neighbour_exchange says that it needs an even number of ranks") {
  CHECK(tutti::supports<neighbour_exchange>(1));
  CHECK(tutti::supports<neighbour_exchange>(6));
  CHECK_FALSE(tutti::supports<neighbour_exchange>(7));
  CHECK_FALSE(tutti::valid_route<neighbour_exchange>(7));
}

TEST_CASE("neighbour_exchange costs p/2 rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; size += 2) check_route_costs<neighbour_exchange>(size, size / 2);
}

TEST_CASE("neighbour_exchange is between pairs, each of both neighbours in turn") {
  const auto s = tutti::schedule_for<allgather, neighbour_exchange>{};
  for (const int size : {2, 4, 6, 10}) {
    for (int rank = 0; rank < size; ++rank) {
      for (int k = 0; k < size / 2; ++k) {
        const int turned = size / 2 - 1 - k;
        const int expected = tutti::modulo(rank + ((rank + turned) % 2 == 0 ? 1 : -1), size);
        s.round({rank, size}, k, [&](auto step) { CHECK(step.peer == expected); });
      }
    }
  }
}
