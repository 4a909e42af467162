// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/reduce_scatter_gather.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::reduce_scatter_gather, 1, 16>);
static_assert(tutti::schedule_for<reduce, tutti::reduce_scatter_gather>::rank_ordered);

TEST_CASE("reduce-scatter-gather is proved for all sizes and roots") {
  CHECK(prove<tutti::reduce_scatter_gather>() == 1);
}

TEST_CASE("reduce-scatter-gather costs 2 rounds and at most 2n(p-1)/p bytes per rank") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const auto c = cost<reduce, tutti::reduce_scatter_gather>(size);
    CHECK(c.rounds == 2);
    CHECK(c.received == 2 * (size - 1));  // of the root, in blocks of n/p
    CHECK(c.sent == size);
    CHECK(c.folds == size - 1);
    CHECK(c.fan_in == size - 1);
  }
}
