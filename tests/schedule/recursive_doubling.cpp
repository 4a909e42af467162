// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/recursive_doubling.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::recursive_doubling, 1, 16>);
static_assert(tutti::proved_schedule<scan, tutti::recursive_doubling, 1, 16>);
static_assert(tutti::proved_schedule<exscan, tutti::recursive_doubling, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::recursive_doubling>::rank_ordered);
static_assert(tutti::canonical<tutti::schedule_for<allreduce, tutti::recursive_doubling>>(8));
static_assert(!tutti::canonical<tutti::schedule_for<allreduce, tutti::recursive_doubling>>(6));

TEST_CASE("recursive doubling is proved for all sizes") { CHECK(prove<tutti::recursive_doubling>() == 3); }

TEST_CASE("scan and exscan by doubling cost ceil(log2 p) rounds of n bytes") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int q = ceil_log2(size);
    const auto inclusive = cost<scan, tutti::recursive_doubling>(size);
    const auto exclusive = cost<exscan, tutti::recursive_doubling>(size);
    CHECK(inclusive.rounds == q);
    CHECK(inclusive.sent == q);
    CHECK(inclusive.folds == q);
    CHECK(exclusive.rounds == q);
    CHECK(exclusive.sent == q);
    CHECK(exclusive.fan_in == 1);
  }
}

TEST_CASE("recursive doubling costs f rounds and n f bytes, two rounds and n bytes more to fold") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int f = floor_log2(size);
    const int extra = size - (1 << f);
    const auto c = cost<allreduce, tutti::recursive_doubling>(size);
    CHECK(c.rounds == f + (extra > 0 ? 2 : 0));
    CHECK(c.sent == f + (extra > 0 ? 1 : 0));
    CHECK(c.volume == (static_cast<long long>(f) << f) + 2 * extra);
    CHECK(c.fan_in == 1);
  }
}
