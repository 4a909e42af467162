// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/cost.hpp>
#include <tutti/schedule/proof.hpp>

#include <doctest/doctest.h>

#include <memory>

using enum tutti::collective;
using tutti::hop;
using tutti::place;

namespace archetypes {

/// The least that is a schedule.
struct least_schedule {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = false;
  static int rounds(place) { return 0; }
  static int blocks(int) { return 1; }
  template <class Emit>
  static void round(place, int, Emit&&) {}
};
static_assert(tutti::schedule<least_schedule>);

struct no_rounds {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = false;
  static int blocks(int) { return 1; }
  template <class Emit>
  static void round(place, int, Emit&&) {}
};
struct rounds_of_another_type : least_schedule {
  static long rounds(place) { return 0; }
};
struct no_blocks : no_rounds {
  static int rounds(place) { return 0; }
  static int blocks() { return 1; }
};
struct not_const : no_rounds {
  int rounds(place) { return 0; }
};
struct only_sends : no_rounds {
  static int rounds(place) { return 0; }
  static void round(place, int, void (*)(tutti::send_to)) {}
};
struct silent_about_order {
  static constexpr bool overlapping = false;
  static int rounds(place) { return 0; }
  static int blocks(int) { return 1; }
  template <class Emit>
  static void round(place, int, Emit&&) {}
};
struct silent_about_overlap {
  static constexpr bool rank_ordered = false;
  static int rounds(place) { return 0; }
  static int blocks(int) { return 1; }
  template <class Emit>
  static void round(place, int, Emit&&) {}
};
struct not_copyable : least_schedule {
  std::unique_ptr<int> owned;
};
static_assert(!tutti::schedule<no_rounds>);
static_assert(!tutti::schedule<rounds_of_another_type>);
static_assert(!tutti::schedule<no_blocks>);
static_assert(!tutti::schedule<not_const>);
static_assert(!tutti::schedule<only_sends>);
static_assert(!tutti::schedule<silent_about_order>);
static_assert(!tutti::schedule<silent_about_overlap>);
static_assert(!tutti::schedule<not_copyable>);
static_assert(!tutti::schedule<tutti::ring>);  // a route is not a schedule
static_assert(!tutti::schedule<int>);

/// The least that is a route: one message a round, cyclic group, any size.
struct least_route {
  static constexpr const char* name = "least";
  static constexpr int rounds(int size) { return size - 1; }
  static constexpr hop entry(int size, int k) { return {-1, tutti::one_block(k + 1 - size)}; }
};
static_assert(tutti::route<least_route>);
static_assert(tutti::proved<least_route, 1, 32>);  // numbers may be negative: they count modulo the size

struct no_name {
  static constexpr int rounds(int) { return 0; }
  static constexpr hop entry(int, int) { return {}; }
};
struct unsigned_rounds : least_route {
  static constexpr unsigned rounds(int) { return 0; }
};
struct no_entry {
  static constexpr std::string_view name = "no_entry";
  static constexpr int rounds(int) { return 0; }
};
struct entry_of_another_type : no_entry {
  static constexpr int entry(int, int) { return 0; }
};
struct ports_without_entry : no_entry {
  static constexpr int ports(int, int) { return 2; }
};
struct entry_without_ports : no_entry {
  static constexpr hop entry(int, int, int) { return {}; }
};
struct members_not_static : no_entry {
  hop entry(int, int) { return {}; }
};
static_assert(!tutti::route<no_name>);
static_assert(!tutti::route<unsigned_rounds>);
static_assert(!tutti::route<no_entry>);
static_assert(!tutti::route<entry_of_another_type>);
static_assert(!tutti::route<ports_without_entry>);
static_assert(!tutti::route<entry_without_ports>);
static_assert(!tutti::route<members_not_static>);
static_assert(!tutti::route<least_schedule>);

/// The least that is a group.
struct trivial_group {
  int size;
  static int multiply(int, int) { return 0; }
  static int inverse(int) { return 0; }
  static tutti::block_set translate(int, tutti::block_set b) { return b; }
  static bool translatable(tutti::block_set) { return true; }
};
struct no_inverse {
  int size;
  static int multiply(int, int) { return 0; }
  static tutti::block_set translate(int, tutti::block_set b) { return b; }
  static bool translatable(tutti::block_set) { return true; }
};
static_assert(tutti::group<trivial_group>);
static_assert(!tutti::group<no_inverse>);
static_assert(!tutti::group<int>);

// An algorithm names its schedules, or is a route and derives them, or both.
struct only_a_barrier {
  static constexpr std::string_view name = "only_a_barrier";
  using barrier = least_schedule;
};
static_assert(tutti::implements<only_a_barrier, barrier>);
static_assert(!tutti::implements<only_a_barrier, broadcast>);
static_assert(!tutti::implements<int, allreduce>);
static_assert(tutti::implements<least_route, allreduce>);
static_assert(tutti::implements<tutti::naive, allreduce> && !tutti::implements<tutti::naive, reduce>);

struct claims_what_is_no_schedule {
  static constexpr std::string_view name = "claims";
  using allreduce = int;
  using alltoall = least_schedule;  // has no slots
};
static_assert(!tutti::implements<claims_what_is_no_schedule, allreduce>);
static_assert(!tutti::implements<claims_what_is_no_schedule, alltoall>);

struct ring_with_stars : tutti::ring {
  static constexpr std::string_view name = "ring_with_stars";
  using reduce_scatter = tutti::flat::reduce_scatter;
};
using own = tutti::schedule_for<allreduce, ring_with_stars>;
static_assert(std::is_same_v<own, tutti::then<tutti::flat::reduce_scatter, tutti::allgather_of<ring_with_stars>>>);
static_assert(tutti::name_of<ring_with_stars>() == "ring_with_stars");

static_assert(tutti::rooted<tutti::binomial::reduce> && tutti::rooted<tutti::binomial::broadcast>);
static_assert(tutti::rooted<tutti::schedule_for<broadcast, tutti::scatter_allgather>>);
static_assert(!tutti::rooted<tutti::binomial::allreduce>);
static_assert(tutti::supports<tutti::ring>(7) && !tutti::supports<tutti::hypercube_halving>(7));

}  // namespace archetypes

using namespace archetypes;

TEST_CASE("a schedule derived from the least route runs") {
  for (int size = 1; size <= 16; ++size) {
    CHECK(tutti::correct<allreduce, tutti::schedule_for<allreduce, least_route>>(size));
    CHECK(tutti::correct<allreduce, own>(size));
  }
}

TEST_CASE("groups obey the laws, and move sets element by element") {
  const auto laws = [](auto g) {
    for (int a = 0; a < g.size; ++a) {
      CHECK(g.multiply(0, a) == a);
      CHECK(g.multiply(a, 0) == a);
      CHECK(g.multiply(a, g.inverse(a)) == 0);
      for (int b = 0; b < g.size; ++b) {
        for (int c = 0; c < g.size; ++c) {
          if (g.multiply(g.multiply(a, b), c) != g.multiply(a, g.multiply(b, c))) FAIL_CHECK("not associative");
        }
      }
      for (int first = 0; first < g.size; ++first) {
        for (int stride = 1; stride < g.size; ++stride) {
          for (int blocks = 1; blocks <= g.size; ++blocks) {
            const tutti::block_set set{first, stride, blocks};
            if (!g.translatable(set)) continue;
            const tutti::block_set moved = g.translate(a, set);
            for (int i = 0; i < blocks; ++i) {
              // The image holds the same blocks, perhaps in another order.
              if (!tutti::detail::contains(moved, g.multiply(a, set.at(i, g.size)), g.size)) FAIL_CHECK("block lost");
            }
          }
        }
      }
    }
  };
  laws(tutti::cyclic{1});
  laws(tutti::cyclic{7});
  laws(tutti::cyclic{8});
  laws(tutti::exclusive_or{1});
  laws(tutti::exclusive_or{8});
  laws(tutti::exclusive_or{16});
  CHECK_FALSE(tutti::exclusive_or{8}.translatable({1, 1, 2}));  // 1, 2: not a subcube
  CHECK_FALSE(tutti::exclusive_or{8}.translatable({0, 1, 3}));
  CHECK_FALSE(tutti::exclusive_or{8}.translatable({0, 3, 2}));
  CHECK_FALSE(tutti::exclusive_or{8}.translatable({4, 2, 8}));  // runs out of the group
}

TEST_CASE("membership of a set") {
  for (const int blocks : {1, 2, 7, 12}) {
    for (int first = 0; first < blocks; ++first) {
      for (int stride = -blocks; stride <= blocks; ++stride) {
        for (int n = 1; n <= blocks; ++n) {
          const tutti::block_set set{first, stride, n};
          for (int b = 0; b < blocks; ++b) {
            bool listed = false;
            bool repeats = false;
            for (int i = 0; i < n; ++i) {
              listed |= set.at(i, blocks) == b;
              for (int j = 0; j < i; ++j) repeats |= set.at(i, blocks) == set.at(j, blocks);
            }
            if (!repeats && tutti::detail::contains(set, b, blocks) != listed) FAIL_CHECK("wrong");
          }
        }
      }
    }
  }
}

namespace {

/// Both ways round the ring at once: two ports, and at an even size one of them rests in a round.
struct two_way_ring {
  static constexpr std::string_view name = "two_way_ring";
  static constexpr int rounds(int size) { return size / 2; }
  static constexpr int ports(int, int) { return 2; }
  static constexpr hop entry(int size, int k, int port) {
    const int up = size / 2;
    const int down = size - 1 - up;
    if (port == 0) return {1, tutti::one_block(up - k)};
    return {size - 1, {size - (down - k), 1, down - k > 0 ? 1 : 0}};
  }
};
static_assert(tutti::proved<two_way_ring, 1, 64>);

/// Thirds instead of halves: where the last third is shorter, the others go in two messages, so that what is folded in
/// one round stays equal or disjoint.
struct ternary {
  static constexpr std::string_view name = "ternary";
  static constexpr int left_before(int size, int k) {
    for (; k > 0; --k) size = (size + 2) / 3;
    return size;
  }
  static constexpr int rounds(int size) {
    int k = 0;
    for (; size > 1; size = (size + 2) / 3) ++k;
    return k;
  }
  static constexpr int ports(int, int) { return 4; }
  static constexpr hop entry(int size, int k, int port) {
    const int end = left_before(size, k);
    const int third = (end + 2) / 3;
    const int from = (1 + port / 2) * third;
    const int shorter = end > 2 * third ? end - 2 * third : 0;
    const int next = from + third < end ? from + third : end;
    const int cut = from + shorter < next ? from + shorter : next;
    if (from >= end) return {0, {0, 1, 0}};
    return port % 2 == 0 ? hop{from, {from, 1, cut - from}} : hop{from, {cut, 1, next - cut}};
  }
};
static_assert(tutti::proved<ternary, 1, 64>);

/// The same without the cut: some block is folded from one peer alone and its neighbour from two.
struct uncut : ternary {
  static constexpr int ports(int, int) { return 2; }
  static constexpr hop entry(int size, int k, int port) {
    const int end = left_before(size, k);
    const int third = (end + 2) / 3;
    const int from = (1 + port) * third;
    if (from >= end) return {0, {0, 1, 0}};
    return {from, {from, 1, (from + third < end ? third : end - from)}};
  }
};
static_assert(tutti::valid_route<uncut>(9) && !tutti::valid_route<uncut>(8));

template <class R>
void prove_all(int size) {
  CAPTURE(size);
  CHECK(tutti::correct<reduce_scatter, tutti::reduce_scatter_of<R>>(size));
  CHECK(tutti::correct<allreduce, tutti::allreduce_of<R>>(size));
  CHECK(tutti::correct<alltoall, tutti::alltoall_of<R>>(size));
  for (int root = 0; root < size; ++root) {
    CHECK(tutti::correct<reduce, tutti::reduce_of<R>>(size, root));
    CHECK(tutti::correct<broadcast, tutti::broadcast_of<R>>(size, root));
    CHECK(tutti::correct<scatter, tutti::scatter_of<R>>(size, root));
    CHECK(tutti::correct<gather, tutti::gather_of<R>>(size, root));
  }
}

}  // namespace

TEST_CASE("routes of several ports derive the same collectives") {
  for (int size = 1; size <= 20; ++size) {
    prove_all<two_way_ring>(size);
    prove_all<ternary>(size);
  }
  CHECK(tutti::count(tutti::reduce_scatter_of<two_way_ring>{}, 9).rounds == 4);
  CHECK(tutti::count(tutti::reduce_scatter_of<two_way_ring>{}, 9).fan_in == 2);
  CHECK(tutti::count(tutti::reduce_scatter_of<ternary>{}, 27).rounds == 3);
  CHECK(tutti::count(tutti::reduce_scatter_of<ternary>{}, 27).sent == 26);
}
