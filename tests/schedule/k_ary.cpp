// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/k_ary.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::k_ary;

static_assert(route_is_proved<k_ary<3>>());
static_assert(tutti::proved<k_ary<2>, 1, 64> && tutti::proved<k_ary<4>, 1, 64> && tutti::proved<k_ary<7>, 1, 64>);
static_assert(k_ary<12>::name == "k_ary<12>");

TEST_CASE("k_ary is proved for all collectives, sizes and roots") {
  check_route<k_ary<2>>(512);
  check_route<k_ary<3>>(512);
  check_route<k_ary<4>>(512);
  check_route<k_ary<10>>(512);
  CHECK(prove<k_ary<3>>() == 9);
  CHECK(prove<k_ary<4>>() == 9);
}

TEST_CASE_TEMPLATE("k_ary costs the logarithm's rounds and n(p-1)/p bytes over Radix-1 ports", Radix,
                   std::integral_constant<int, 3>, std::integral_constant<int, 4>) {
  constexpr int radix = Radix::value;
  for (int size = 2; size <= 64; ++size) {
    int rounds = 0;
    for (int reach = 1; reach < size; reach *= radix) ++rounds;
    int messages = 0;
    int fan_in = 0;
    for (int left = size; left > 1; left = (left + radix - 1) / radix) {
      const int part = (left + radix - 1) / radix;
      const int others = (left - 1) / part;
      messages += others;
      fan_in = std::max(fan_in, others);
    }
    CHECK(fan_in <= radix - 1);
    CHECK(messages <= rounds * (radix - 1));
    check_route_costs<k_ary<radix>>(size, rounds, fan_in, messages);
  }
}

TEST_CASE("k_ary of radix 2 is circulant") {
  for (int size = 1; size <= 64; ++size) CHECK(rounds_of<k_ary<2>>(size) == rounds_of<tutti::circulant>(size));
}

TEST_CASE("k_ary of a radix that is not below p is flat") {
  const auto rounds = rounds_of<k_ary<8>>(6);
  REQUIRE(rounds.size() == 1);
  CHECK(rounds[0] == std::map<int, std::set<int>>{{1, {1}}, {2, {2}}, {3, {3}}, {4, {4}}, {5, {5}}});
}

TEST_CASE("k_ary lists sets that fold into the same blocks together") {
  std::string log;
  tutti::schedule_for<reduce_scatter, k_ary<4>>{}.round({0, 11}, 0, [&](auto step) {
    if constexpr (tutti::is_combine<decltype(step)>) {
      log += " " + std::to_string(step.peer) + ":" + std::to_string(step.what.at(0, 11)) + "+" +
             std::to_string(step.what.count);
    }
  });
  // Parts of 3 blocks, the last of 2: from rank 0-9 two blocks; from 0-6 those and the third; from 0-3 the other way.
  CHECK(log == " 2:0+2 5:0+2 5:2+1 8:2+1 8:0+2");
}
