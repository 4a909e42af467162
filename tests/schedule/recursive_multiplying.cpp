// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/recursive_doubling.hpp>
#include <tutti/schedule/recursive_multiplying.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<allreduce, tutti::recursive_multiplying<2>, 1, 16>);
static_assert(tutti::proved_schedule<allreduce, tutti::recursive_multiplying<4>, 1, 16>);
static_assert(tutti::proved_schedule<allreduce, tutti::recursive_multiplying<8>, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::recursive_multiplying<4>>::rank_ordered);

TEST_CASE("recursive multiplying is proved for all sizes") {
  CHECK(prove<tutti::recursive_multiplying<2>>() == 1);
  CHECK(prove<tutti::recursive_multiplying<4>>() == 1);
  CHECK(prove<tutti::recursive_multiplying<8>>() == 1);
  CHECK(prove<tutti::recursive_multiplying<64>>() == 1);
}

TEST_CASE("recursive multiplying costs ceil(f / log2 radix) rounds and radix-1 messages in each") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int f = floor_log2(size);
    const bool folds = (1 << f) != size;
    const auto c = cost<allreduce, tutti::recursive_multiplying<4>>(size);
    CHECK(c.rounds == (f + 1) / 2 + (folds ? 2 : 0));
    CHECK(c.sent == f / 2 * 3 + f % 2 + (folds ? 1 : 0));
    CHECK(c.fan_in == (f >= 2 ? 3 : 1));
  }
  for (int size = 1; size <= 64; ++size) {
    CHECK(cost<allreduce, tutti::recursive_multiplying<2>>(size) == cost<allreduce, tutti::recursive_doubling>(size));
  }
}
