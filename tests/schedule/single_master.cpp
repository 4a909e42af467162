// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/single_master.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::single_master, 1, 16>);
static_assert(tutti::proved_schedule<broadcast, tutti::single_master, 1, 16>);
static_assert(tutti::proved_schedule<gather, tutti::single_master, 1, 16>);
static_assert(tutti::proved_schedule<scatter, tutti::single_master, 1, 16>);
static_assert(tutti::proved_schedule<allreduce, tutti::single_master, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::single_master>::rank_ordered);

TEST_CASE("single master is proved for all sizes and roots") { CHECK(prove<tutti::single_master>() == 5); }

TEST_CASE("single master costs 2 rounds, 2(p-1)n bytes through the master and fan-in p-1") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const long long others = size - 1;
    const tutti::schedule_cost expected{.rounds = 2,
                                        .fan_in = size - 1,
                                        .messages = 2 * others,
                                        .busiest = others,
                                        .volume = 2 * others,
                                        .sent = others,
                                        .received = others,
                                        .folds = others,
                                        .scratch = 1};
    CHECK(cost<allreduce, tutti::single_master>(size) == expected);
  }
}
