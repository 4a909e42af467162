// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/scatter_allgather.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<broadcast, tutti::scatter_allgather, 1, 16>);

TEST_CASE("scatter-allgather is proved for all sizes and roots") { CHECK(prove<tutti::scatter_allgather>() == 1); }

TEST_CASE("scatter-allgather costs 2q rounds and less than 2n bytes per rank") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const auto c = cost<broadcast, tutti::scatter_allgather>(size);
    CHECK(c.rounds == 2 * ceil_log2(size));
    CHECK(c.sent == 2 * (size - 1));  // of the root, in blocks of n/p
    CHECK(c.received < 2 * size);
  }
}
