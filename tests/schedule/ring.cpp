// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/ring.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::ring>());

TEST_CASE("ring is proved for all collectives, sizes and roots") {
  check_route<tutti::ring>(512);
  CHECK(prove<tutti::ring>() == 9);
}

TEST_CASE("ring costs p-1 rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) check_route_costs<tutti::ring>(size, size - 1);
}

TEST_CASE("ring restricted to a root is the chain") {
  const auto reduce_to_2 = tutti::schedule_for<reduce, tutti::ring>{2};
  // Among 5 ranks, farthest first: 3 to 4, 4 to 0, 0 to 1, 1 to 2.
  for (int k = 0; k < 4; ++k) {
    for (int rank = 0; rank < 5; ++rank) {
      int sends = 0;
      reduce_to_2.round({rank, 5}, k, [&](auto step) {
        if constexpr (tutti::is_send<decltype(step)>) {
          ++sends;
          CHECK(step.peer == (rank + 1) % 5);
        }
      });
      CHECK(sends == (rank == (3 + k) % 5 ? 1 : 0));
    }
  }
}
