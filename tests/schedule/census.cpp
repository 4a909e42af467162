// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/census.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::census, 1, 16>);
static_assert(tutti::proved_schedule<scan, tutti::census, 1, 16>);
static_assert(tutti::proved_schedule<exscan, tutti::census, 1, 16>);

TEST_CASE("census is proved for all sizes") { CHECK(prove<tutti::census>() == 3); }

TEST_CASE("census takes ceil(log2 p) rounds of one vector") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int q = ceil_log2(size);
    const tutti::schedule_cost c = cost<allreduce, tutti::census>(size);
    CHECK(c.rounds == q);
    CHECK(c.fan_in == 1);
    CHECK(c.sent == q);
    CHECK(c.received == q);
    CHECK(c.messages == static_cast<long long>(q) * size);
    CHECK(cost<scan, tutti::census>(size).rounds == q);
    CHECK(cost<exscan, tutti::census>(size).sent <= q);
  }
}

TEST_CASE("the census of an allreduce is folded differently on every rank, and says so") {
  CHECK_FALSE(tutti::uniform<tutti::census::allreduce>);
  CHECK_FALSE(tutti::census::allreduce::rank_ordered);
  CHECK(tutti::census::scan::rank_ordered);
}
