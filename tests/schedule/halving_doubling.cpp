// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/halving_doubling.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::halving_doubling, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::halving_doubling>::rank_ordered);

TEST_CASE("halving-doubling is proved for all sizes") { CHECK(prove<tutti::halving_doubling>() == 1); }

TEST_CASE("halving-doubling costs 2f rounds and 2n(1-2^-f) bytes, two rounds and n bytes more to fold") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int f = floor_log2(size);
    const int power = 1 << f;
    const bool folds = power != size;
    const auto c = cost<allreduce, tutti::halving_doubling>(size);
    CHECK(c.rounds == 2 * f + (folds ? 2 : 0));
    CHECK(c.sent == 2 * (power - 1) + (folds ? power : 0));
    CHECK(c.received == c.sent);
    CHECK(c.folds == power - 1 + (folds ? power : 0));
    CHECK(c.fan_in == 1);
    CHECK(tutti::schedule_for<allreduce, tutti::halving_doubling>{}.blocks(size) == power);
  }
}
