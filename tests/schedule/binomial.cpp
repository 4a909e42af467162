// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/binomial.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::binomial, 1, 16>);
static_assert(tutti::proved_schedule<broadcast, tutti::binomial, 1, 16>);
static_assert(tutti::proved_schedule<gather, tutti::binomial, 1, 16>);
static_assert(tutti::proved_schedule<scatter, tutti::binomial, 1, 16>);
static_assert(tutti::proved_schedule<allreduce, tutti::binomial, 1, 16>);
static_assert(tutti::schedule_for<reduce, tutti::binomial>::rank_ordered);
static_assert(tutti::canonical<tutti::schedule_for<reduce, tutti::binomial>>(13));
static_assert(tutti::canonical<tutti::schedule_for<allreduce, tutti::binomial>>(13));

TEST_CASE("binomial trees are proved for all sizes and roots") { CHECK(prove<tutti::binomial>() == 5); }

TEST_CASE("binomial trees cost ceil(log2 p) rounds and p-1 messages for every root") {
  for (int size = 2; size <= 64; ++size) {
    const int q = ceil_log2(size);
    for (int root = 0; root < size; ++root) {
      CAPTURE(size);
      CAPTURE(root);
      const auto up = tutti::count(tutti::binomial::reduce{root}, size);
      const auto down = tutti::count(tutti::binomial::broadcast{root}, size);
      const auto in = tutti::count(tutti::binomial::gather{root}, size);
      const auto out = tutti::count(tutti::binomial::scatter{root}, size);
      CHECK(up.rounds == q);
      CHECK(up.messages == size - 1);
      CHECK(up.volume == size - 1);
      CHECK(up.received <= q);
      CHECK(up.sent == 1);
      CHECK(up.fan_in == 1);
      CHECK(down.sent == up.received);
      CHECK(down.rounds == q);
      CHECK(in.messages == size - 1);
      CHECK(in.received == size - 1);
      CHECK(out.sent == size - 1);
    }
    CHECK(cost<allreduce, tutti::binomial>(size).rounds == 2 * q);
    CHECK(cost<allreduce, tutti::binomial>(size).volume == 2 * (size - 1));
  }
}

TEST_CASE("binomial blocks are contiguous ranks for every root") {
  for (int root = 0; root < 13; ++root) {
    for (int rank = 0; rank < 13; ++rank) {
      for (int k = 0; k < 4; ++k) {
        tutti::binomial::scatter{root}.round({rank, 13}, k, [](auto step) {
          CHECK(step.what.stride == 1);
          CHECK(step.what.first + step.what.count <= 13);
        });
      }
    }
  }
}
