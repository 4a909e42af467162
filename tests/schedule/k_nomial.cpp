// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/k_nomial.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

using tutti::k_nomial;

namespace {

template <class A>
constexpr bool proved_small() {
  static_assert(tutti::proved_schedule<reduce, A, 1, 8>);
  static_assert(tutti::proved_schedule<broadcast, A, 1, 8>);
  static_assert(tutti::proved_schedule<gather, A, 1, 8>);
  static_assert(tutti::proved_schedule<scatter, A, 1, 8>);
  static_assert(tutti::proved_schedule<allreduce, A, 1, 16>);
  static_assert(tutti::schedule_for<reduce, A>::rank_ordered && tutti::schedule_for<allreduce, A>::rank_ordered);
  return true;
}
static_assert(proved_small<k_nomial<3>>());
static_assert(proved_small<k_nomial<4>>());

static_assert(tutti::canonical<tutti::schedule_for<reduce, k_nomial<2>>>(13));
static_assert(tutti::canonical<tutti::schedule_for<reduce, k_nomial<4>>>(3));
static_assert(!tutti::canonical<tutti::schedule_for<reduce, k_nomial<4>>>(4));

template <int Radix>
void check_costs() {
  CAPTURE(Radix);
  using tree = k_nomial<Radix>;
  for (int size = 2; size <= 64; ++size) {
    int levels = 0;
    for (int ranks = 1; ranks < size; ranks *= Radix) ++levels;
    for (const int root : {0, 1, size / 2, size - 1}) {
      CAPTURE(size);
      CAPTURE(root);
      const auto up = tutti::count(typename tree::reduce{root}, size);
      const auto down = tutti::count(typename tree::broadcast{root}, size);
      const auto in = tutti::count(typename tree::gather{root}, size);
      const auto out = tutti::count(typename tree::scatter{root}, size);
      CHECK(up.rounds == levels);
      CHECK(up.messages == size - 1);
      CHECK(up.fan_in == std::min(Radix, size) - 1);
      CHECK(up.received <= (Radix - 1) * levels);
      CHECK(up.sent == 1);
      CHECK(down.rounds == levels);
      CHECK(down.sent == up.received);
      CHECK(down.fan_in == 1);
      CHECK(in.messages == size - 1);
      CHECK(in.received == size - 1);
      CHECK(out.sent == size - 1);
    }
    CHECK(cost<allreduce, tree>(size).rounds == 2 * levels);
    CHECK(cost<allreduce, tree>(size).volume == 2 * (size - 1));
  }
}

}  // namespace

TEST_CASE("k-nomial trees are proved for all sizes and roots") {
  CHECK(prove<k_nomial<2>>() == 5);
  CHECK(prove<k_nomial<3>>() == 5);
  CHECK(prove<k_nomial<4>>() == 5);
  CHECK(prove<k_nomial<7>>() == 5);
  CHECK(prove<k_nomial<64>>() == 5);
}

TEST_CASE("k-nomial trees cost ceil(log_k p) rounds and p-1 messages for every root") {
  check_costs<2>();
  check_costs<3>();
  check_costs<4>();
  check_costs<5>();
  check_costs<8>();
  check_costs<100>();
}

TEST_CASE("one round with a radix of all ranks is the star") {
  for (int root = 0; root < 7; ++root) {
    const auto c = tutti::count(k_nomial<7>::reduce{root}, 7);
    CHECK(c.rounds == 1);
    CHECK(c.fan_in == 6);
  }
}

TEST_CASE("the group that a k-nomial tree is cut from may be larger than any number of ranks") {
  const k_nomial<1000>::reduce far{2'000'000'000};
  CHECK(far.rounds({0, 2'000'000'001}) == 4);
  int parent = -1;
  far.round({0, 2'000'000'001}, 3, [&](auto step) { parent = step.peer; });
  CHECK(parent == 2'000'000'000);
}

TEST_CASE("a name says the radix") {
  CHECK(k_nomial<2>::name == "k_nomial<2>");
  CHECK(k_nomial<10>::name == "k_nomial<10>");
  CHECK(k_nomial<1234>::name == "k_nomial<1234>");
}
