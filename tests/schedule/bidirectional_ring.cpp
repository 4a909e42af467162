// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/bidirectional_ring.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::bidirectional_ring;

static_assert(route_is_proved<bidirectional_ring>());

TEST_CASE("bidirectional_ring is proved for all collectives, sizes and roots") {
  check_route<bidirectional_ring>(512);
  CHECK(prove<bidirectional_ring>() == 9);
}

TEST_CASE("bidirectional_ring costs ceil((p-1)/2) rounds and n(p-1)/p bytes, one block each way a round") {
  for (int size = 2; size <= 64; ++size) {
    // At an even number of ranks the way down is a round shorter. Two ranks have one link.
    check_route_costs<bidirectional_ring>(size, size / 2, size > 3 ? 2 : size - 1, size - 1);
  }
}

TEST_CASE("bidirectional_ring talks to its two neighbours only") {
  for (int size = 3; size <= 20; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      const auto s = tutti::schedule_for<alltoall, bidirectional_ring>{};
      for (int k = 0; k < s.rounds({rank, size}); ++k) {
        s.round({rank, size}, k, [&](auto step) {
          const int distance = tutti::modulo(step.peer - rank, size);
          CHECK((distance == 1 || distance == size - 1));
        });
      }
    }
  }
}
