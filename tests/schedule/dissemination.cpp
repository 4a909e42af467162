// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/dissemination.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<barrier, tutti::dissemination, 1, 16>);

TEST_CASE("dissemination is proved for all sizes") { CHECK(prove<tutti::dissemination>() == 1); }

TEST_CASE("dissemination costs ceil(log2 p) rounds of one message per rank") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const auto c = cost<barrier, tutti::dissemination>(size);
    CHECK(c.rounds == ceil_log2(size));
    CHECK(c.messages == static_cast<long long>(size) * ceil_log2(size));
    CHECK(c.fan_in == 1);
  }
}
