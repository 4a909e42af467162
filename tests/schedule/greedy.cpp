// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/bine.hpp>
#include <tutti/schedule/bruck.hpp>
#include <tutti/schedule/greedy.hpp>
#include <tutti/schedule/hypercube.hpp>
#include <tutti/schedule/neighbour_exchange.hpp>
#include <tutti/schedule/pat.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::greedy_route;

namespace {

struct all_powers {
  static constexpr std::string_view name = "powers";
  static constexpr int rounds(int size) { return tutti::detail::ceil_log2(size); }
};
struct descending_powers : all_powers {
  static constexpr int generator(int size, int k) { return 1 << (rounds(size) - 1 - k); }
};
/// At other sizes greedy finds later ways for some blocks than pat, round the circle.
struct negative_ascending_powers : all_powers {
  static constexpr bool supports(int size) { return tutti::detail::is_power_of_two(size); }
  static constexpr int generator(int, int k) { return -(1 << k); }
};
struct even_sizes {
  using group_type = tutti::dihedral;
  static constexpr bool supports(int size) { return size == 1 || size % 2 == 0; }
};
struct swings : even_sizes {
  static constexpr std::string_view name = "swings";
  static constexpr int rounds(int size) { return tutti::detail::ceil_log2(size); }
  static constexpr int generator(int, int k) { return k == 0 ? 1 : 1 - 2 * generator(0, k - 1); }
};
struct ones_in_turn : even_sizes {
  static constexpr std::string_view name = "ones_in_turn";
  static constexpr int rounds(int size) { return size / 2; }
  static constexpr int generator(int, int k) { return k % 2 == 0 ? 1 : -1; }
};
struct bits {
  static constexpr std::string_view name = "bits";
  using group_type = tutti::exclusive_or;
  static constexpr bool supports(int size) { return tutti::detail::is_power_of_two(size); }
  static constexpr int rounds(int size) { return tutti::detail::floor_log2(size); }
  static constexpr int generator(int, int k) { return 1 << k; }
};
/// Nothing that the library has: powers of three, there and back, so that every distance up to p is reached.
struct balanced_ternary {
  static constexpr std::string_view name = "balanced_ternary";
  static constexpr int rounds(int size) {
    int rounds = 0;
    for (int reach = 1; reach < size; reach *= 3) rounds += 2;
    return rounds;
  }
  static constexpr int generator(int, int k) {
    int power = 1;
    for (int i = 0; i < k / 2; ++i) power *= 3;
    return k % 2 == 0 ? power : -power;
  }
};
struct no_generators : all_powers {};
struct no_rounds {
  static constexpr std::string_view name = "no_rounds";
  static constexpr int generator(int, int) { return 1; }
};
/// Reaches half of the ranks.
struct twos : all_powers {
  static constexpr bool supports(int size) { return size == 6 || size == 8 || size == 64 || size == 100; }
  static constexpr int generator(int, int k) { return 2 << k; }
};

template <class Generators, class R>
void check_same(int up_to) {
  for (int size = 1; size <= up_to; ++size) {
    if (!tutti::supports<Generators>(size)) continue;
    CAPTURE(size);
    CHECK(rounds_of<greedy_route<Generators>>(size) == rounds_of<R>(size));
  }
}

}  // namespace

static_assert(tutti::generator_list<bits> && tutti::route<greedy_route<bits>>);
static_assert(!tutti::generator_list<no_generators> && !tutti::generator_list<no_rounds>);
static_assert(tutti::proved<greedy_route<balanced_ternary>, 1, 64>);
static_assert(tutti::proved_schedule<allreduce, greedy_route<balanced_ternary>, 1, 8>);
static_assert(tutti::proved_schedule<alltoall, greedy_route<balanced_ternary>, 1, 8>);
static_assert(tutti::proved<greedy_route<swings>, 1, 64> && tutti::proved<greedy_route<bits>, 1, 64>);
static_assert(tutti::valid_route<greedy_route<descending_powers>>(65));
static_assert(!tutti::valid_route<greedy_route<twos>>(8));

TEST_CASE("greedy routes are proved for all collectives, sizes and roots") {
  CHECK(prove<greedy_route<balanced_ternary>>() == 9);
  check_route<greedy_route<balanced_ternary>>(512);
  check_route<greedy_route<swings>>(512);
  for (const int size : {4094, 4096}) {
    CHECK(tutti::valid_route<greedy_route<balanced_ternary>>(size));
    CHECK(tutti::valid_route<greedy_route<swings>>(size));
  }
}

TEST_CASE("greedy gives the library's routes from their generators") {
  check_same<descending_powers, tutti::bruck>(200);
  check_same<negative_ascending_powers, tutti::pat>(256);
  check_same<swings, tutti::bine>(520);
  check_same<ones_in_turn, tutti::neighbour_exchange>(100);
  check_same<bits, tutti::hypercube_doubling>(256);
}

TEST_CASE("greedy sends few sets") {
  for (int size = 2; size <= 130; ++size) {
    for (int k = 0; k < greedy_route<descending_powers>::rounds(size); ++k) {
      CHECK(greedy_route<descending_powers>::ports(size, k) == 1);
      if (negative_ascending_powers::supports(size)) {
        CHECK(greedy_route<negative_ascending_powers>::ports(size, k) == 1);
      }
      if (size % 2 == 0) CHECK(greedy_route<swings>::ports(size, k) <= 2);
    }
  }
}

TEST_CASE("greedy costs the list's rounds and n(p-1)/p bytes") {
  for (int size = 2; size <= 64; size += 2) check_route_costs<greedy_route<swings>>(size, ceil_log2(size));
}

TEST_CASE("a list that does not reach all ranks is no route") {
  CHECK_FALSE(tutti::valid_route<greedy_route<twos>>(6));
  CHECK_FALSE(tutti::valid_route<greedy_route<twos>>(64));
  CHECK_FALSE(tutti::valid_route<greedy_route<twos>>(100));
}
