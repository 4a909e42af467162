// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/recursive_doubling.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::recursive_doubling, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::recursive_doubling>::rank_ordered);

TEST_CASE("recursive doubling is proved for all sizes") { CHECK(prove<tutti::recursive_doubling>() == 1); }

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
