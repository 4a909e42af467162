// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/naive.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::naive, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::naive>::rank_ordered);

TEST_CASE("naive is proved for all sizes") { CHECK(prove<tutti::naive>() == 1); }

TEST_CASE("naive costs one round, (p-1)n bytes per rank and fan-in p-1") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const long long others = size - 1;
    const tutti::schedule_cost expected{.rounds = 1,
                                        .fan_in = size - 1,
                                        .messages = size * others,
                                        .busiest = others,
                                        .volume = size * others,
                                        .sent = others,
                                        .received = others,
                                        .folds = others,
                                        .scratch = 1};
    CHECK(cost<allreduce, tutti::naive>(size) == expected);
  }
}
