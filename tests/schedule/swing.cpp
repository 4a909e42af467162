// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/neighbour_exchange.hpp>
#include <tutti/schedule/swing.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::swing;

static_assert(tutti::proved_schedule<reduce_scatter, swing, 1, 9>);
static_assert(tutti::proved_schedule<allgather, swing, 1, 9>);
static_assert(tutti::proved_schedule<allreduce, swing, 1, 9>);
static_assert(tutti::proved_schedule<barrier, swing, 1, 9>);
static_assert(tutti::proved_schedule<reduce, swing, 1, 6>);
static_assert(tutti::proved_schedule<broadcast, swing, 1, 6>);
static_assert(tutti::proved_schedule<scatter, swing, 1, 6>);
static_assert(tutti::proved_schedule<gather, swing, 1, 6>);
static_assert(!tutti::implements<swing, alltoall>);

namespace {
using neighbours_plus_one = tutti::plus_one<tutti::neighbour_exchange>;
/// Among two ranks only, so that three are two and one.
struct pair {
  static constexpr std::string_view name = "pair";
  static constexpr bool supports(int size) { return size <= 2; }
  static constexpr int rounds(int size) { return size - 1; }
  static constexpr tutti::hop entry(int, int) { return {1, tutti::one_block(1)}; }
};
}  // namespace

TEST_CASE("swing is proved for all collectives but alltoall, sizes and roots") {
  CHECK(prove<swing>() == 8);
  for (const int size : {101, 128}) {
    CHECK(tutti::correct<reduce_scatter, tutti::schedule_for<reduce_scatter, swing>>(size));
    CHECK(tutti::correct<allgather, tutti::schedule_for<allgather, swing>>(size));
  }
}

TEST_CASE("any route can be made one for a rank more") {
  for (const int size : {2, 3, 5, 8, 13, 21}) {
    CHECK(tutti::correct<allreduce, neighbours_plus_one::allreduce>(size));
    for (int root = 0; root < size; ++root) {
      CHECK(tutti::correct<reduce, neighbours_plus_one::reduce>(size, root));
      CHECK(tutti::correct<gather, neighbours_plus_one::gather>(size, root));
    }
  }
  CHECK(tutti::supports<tutti::plus_one<pair>>(3));
  CHECK_FALSE(tutti::supports<tutti::plus_one<pair>>(4));
  CHECK(tutti::correct<allreduce, tutti::plus_one<pair>::allreduce>(3));
}

TEST_CASE("swing among an even number of ranks costs what bine does") {
  for (int size = 2; size <= 64; size += 2) {
    CAPTURE(size);
    CHECK(cost<allreduce, swing>(size) == cost<allreduce, tutti::bine>(size));
    CHECK(cost<reduce, swing>(size) == cost<reduce, tutti::bine>(size));
    CHECK(cost<scatter, swing>(size) == cost<scatter, tutti::bine>(size));
  }
}

TEST_CASE("swing among an odd number of ranks costs n(p-1)/p bytes in the rounds of one rank fewer") {
  for (int size = 3; size <= 65; size += 2) {
    CAPTURE(size);
    const int rounds = ceil_log2(size - 1);
    const long long others = size - 1;
    const tutti::schedule_cost c = cost<reduce_scatter, swing>(size);
    CHECK(c.rounds == rounds);
    CHECK(c.sent == others);
    CHECK(c.received == others);
    CHECK(c.volume == size * others);
    CHECK(c.fan_in == std::max(2LL, (others + rounds - 1) / rounds));  // the last rank's, spread over the rounds
    CHECK(c.messages == others * rounds + 2 * others);
    CHECK(cost<allreduce, swing>(size).sent == 2 * others);
    CHECK(cost<reduce, swing>(size).rounds == rounds);
    CHECK(cost<reduce, swing>(size).volume == others);
    CHECK(cost<broadcast, swing>(size).volume == others);
    CHECK(cost<scatter, swing>(size).sent == others);
    CHECK(cost<gather, swing>(size).received == others);
  }
}
