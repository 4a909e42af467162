// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/pat.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(route_is_proved<tutti::pat>());

TEST_CASE("pat is proved for all collectives, sizes and roots") {
  check_route<tutti::pat>(512);
  CHECK(prove<tutti::pat>() == 9);
}

TEST_CASE("pat costs ceil(log2 p) rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) check_route_costs<tutti::pat>(size, ceil_log2(size));
}

TEST_CASE("pat restricted to a root is the classical binomial tree") {
  const auto down = tutti::schedule_for<broadcast, tutti::pat>{3};
  // Among 6 ranks, relative to the root: 0 to 4; 0 to 2; 0 to 1, 2 to 3, 4 to 5.
  std::string log;
  for (int k = 0; k < down.rounds({0, 6}); ++k) {
    for (int v = 0; v < 6; ++v) {
      down.round({(v + 3) % 6, 6}, k, [&](auto step) {
        if constexpr (tutti::is_send<decltype(step)>) {
          log += " " + std::to_string(k) + ":" + std::to_string(v) + ">" + std::to_string((step.peer + 3) % 6);
        }
      });
    }
  }
  CHECK(log == " 0:0>4 1:0>2 2:0>1 2:2>3 2:4>5");
}
