// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/chain.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::chain, 1, 8>);
static_assert(tutti::proved_schedule<broadcast, tutti::chain, 1, 8>);
static_assert(tutti::proved_schedule<allreduce, tutti::chain, 1, 16>);
static_assert(tutti::proved_schedule<scan, tutti::chain, 1, 16>);
static_assert(tutti::proved_schedule<exscan, tutti::chain, 1, 16>);
static_assert(!tutti::chain::reduce::rank_ordered);
static_assert(tutti::rank_ordered<tutti::chain::reduce>({0, 7}) && !tutti::rank_ordered<tutti::chain::reduce>({1, 7}));
static_assert(tutti::chain::allreduce::rank_ordered);

TEST_CASE("the chain is proved for all sizes, roots and numbers of segments") { CHECK(prove<tutti::chain>() == 5); }

TEST_CASE("the chain costs k + p - 2 rounds and n bytes per rank") {
  for (int size = 2; size <= 64; ++size) {
    for (const int segments : {1, 2, 9}) {
      CAPTURE(size);
      CAPTURE(segments);
      const int rounds = segments + size - 2;
      const long long volume = static_cast<long long>(segments) * (size - 1);
      const auto check = [&](const tutti::schedule_cost& c, int times, bool folds) {
        CHECK(c.rounds == times * rounds);
        CHECK(c.fan_in == 1);
        CHECK(c.messages == times * volume);
        CHECK(c.volume == times * volume);
        CHECK(c.folds == (folds ? segments : 0));
        CHECK(c.sent <= times * segments);
        CHECK(c.received <= times * segments);
      };
      for (const int root : {0, size - 1}) {
        check(tutti::count(tutti::chain::reduce{root, segments}, size), 1, true);
        check(tutti::count(tutti::chain::broadcast{root, segments}, size), 1, false);
      }
      check(tutti::count(tutti::chain::allreduce{segments}, size), 2, true);
      check(tutti::count(tutti::chain::scan{segments}, size), 1, true);
      check(tutti::count(tutti::chain::exscan{segments}, size), 1, size > 2);
    }
  }
}

TEST_CASE("segments travel in order") {
  const tutti::chain::broadcast s{2, 4};
  int expected = 0;
  for (int k = 0; k < s.rounds({2, 5}); ++k) {
    s.round({2, 5}, k, [&](auto step) {
      CHECK(k == expected);
      CHECK(step.peer == 3);
      CHECK(step.what == tutti::one_block(expected++));
    });
  }
  CHECK(expected == 4);
}

TEST_CASE("a rank's rounds are known without asking for each") {
  const tutti::chain::scan s{3};
  const place far{1'000'000, 1'048'576};
  CHECK(tutti::next_round(s, far, 0) == 999'999);
  CHECK(s.previous_round(far, s.rounds(far) - 1) == 1'000'002);
}
