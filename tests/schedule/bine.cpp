// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/bine.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::bine;

static_assert(route_is_proved<bine>());

TEST_CASE("bine is proved for all collectives, even sizes and roots") {
  check_route<bine>(1024);
  for (const int size : {4094, 4096, 3 << 12, (1 << 16) + 2}) CHECK(tutti::valid_route<bine>(size));
  CHECK(prove<bine>() == 9);
}

TEST_CASE("bine says that it needs an even number of ranks") {
  CHECK(tutti::supports<bine>(1));
  CHECK(tutti::supports<bine>(6));
  CHECK_FALSE(tutti::supports<bine>(7));
  CHECK_FALSE(tutti::valid_route<bine>(7));
}

TEST_CASE("bine costs ceil(log2 p) rounds and n(p-1)/p bytes, in one message a round of at most two sets") {
  for (int size = 2; size <= 64; size += 2) {
    check_route_costs<bine>(size, ceil_log2(size));
    for (int k = 0; k < bine::rounds(size); ++k) CHECK(bine::ports(size, k) <= 2);
  }
}

TEST_CASE("bine swings: 1, -1, 3, -5, 11 from even ranks, mirrored from odd ones") {
  const auto s = tutti::schedule_for<reduce_scatter, bine>{};
  const int distances[] = {1, -1, 3, -5, 11};
  for (int rank = 0; rank < 32; ++rank) {
    for (int k = 0; k < 5; ++k) {
      const int expected = tutti::modulo(rank % 2 == 0 ? rank + distances[k] : rank - distances[k], 32);
      s.round({rank, 32}, k, [&](auto step) { CHECK(step.peer == expected); });
    }
  }
}

TEST_CASE("bine restricted to a root is the Bine tree of distance halving") {
  const auto down = tutti::schedule_for<broadcast, bine>{0};
  // Figure 5 of the paper, among 8 ranks: 0 to 3; 0 to 7, 3 to 4; then everybody's neighbour.
  std::string log;
  for (int k = 0; k < down.rounds({0, 8}); ++k) {
    for (int rank = 0; rank < 8; ++rank) {
      down.round({rank, 8}, k, [&](auto step) {
        if constexpr (tutti::is_send<decltype(step)>) {
          log += " " + std::to_string(k) + ":" + std::to_string(rank) + ">" + std::to_string(step.peer);
        }
      });
    }
  }
  CHECK(log == " 0:0>3 1:0>7 1:3>4 2:0>1 2:3>2 2:4>5 2:7>6");
}
