// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/torus.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::torus, tutti::rows_of, tutti::near_square;

static_assert(route_is_proved<torus<>>());
static_assert(tutti::proved<torus<rows_of<2>>, 1, 64> && tutti::proved<torus<rows_of<5>>, 1, 64>);
static_assert(torus<>::name == "torus<near_square>");
static_assert(torus<rows_of<4>>::name == "torus<rows_of<4>>");

TEST_CASE("torus is proved for all collectives, sizes and roots") {
  check_route<torus<>>(256);
  check_route<torus<rows_of<4>>>(512);
  CHECK(prove<torus<>>() == 9);
  CHECK(prove<torus<rows_of<6>>>() == 9);
}

TEST_CASE("torus costs the rounds of both rings and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) {
    const int row = near_square::row(size);
    check_route_costs<torus<>>(size, row - 1 + size / row - 1);
  }
}

TEST_CASE("torus talks to the next rank of the row, then of the column") {
  const auto s = tutti::schedule_for<reduce_scatter, torus<rows_of<3>>>{};
  for (int rank = 0; rank < 12; ++rank) {
    for (int k = 0; k < 5; ++k) {
      const int expected = k < 2 ? rank / 3 * 3 + (rank + 1) % 3 : (rank + 3) % 12;
      s.round({rank, 12}, k, [&](auto step) {
        if constexpr (tutti::is_send<decltype(step)>) CHECK(step.peer == expected);
      });
    }
  }
}
