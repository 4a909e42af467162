// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/two_tree.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::two_tree, 1, 8>);
static_assert(tutti::proved_schedule<broadcast, tutti::two_tree, 1, 8>);
static_assert(tutti::proved_schedule<allreduce, tutti::two_tree, 1, 16>);
static_assert(tutti::two_tree::allreduce::rank_ordered && !tutti::two_tree::reduce::rank_ordered);

namespace {

/// `S` with the claim that it always keeps rank order.
struct always_in_order {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = false;
  tutti::two_tree::reduce original;

  constexpr int rounds(place at) const { return original.rounds(at); }
  constexpr int blocks(int size) const { return original.blocks(size); }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    original.round(at, k, emit);
  }
};

}  // namespace

TEST_CASE("two trees are proved for all sizes, roots and numbers of segments") { CHECK(prove<tutti::two_tree>() == 3); }

TEST_CASE("two trees keep rank order exactly where they say so") {
  constexpr auto claimed = [](int root, int size) {
    return tutti::rank_ordered<tutti::two_tree::reduce>({root, size});
  };
  static_assert(claimed(0, 7) && claimed(6, 7) && !claimed(3, 7) && !claimed(0, 6));
  for (int size = 1; size <= 32; ++size) {
    for (int root = 0; root < size; ++root) {
      CAPTURE(size);
      CAPTURE(root);
      const tutti::verdict v = tutti::verify<reduce>(always_in_order{{root, 2}}, size, root);
      CHECK(v.what == (claimed(root, size) ? tutti::fault::none : tutti::fault::out_of_order));
    }
  }
}

TEST_CASE("two trees cost at most 2q + k - 2 rounds, and n bytes per rank with one port") {
  for (int size = 2; size <= 64; ++size) {
    for (const int segments : {1, 2, 3, 10}) {
      CAPTURE(size);
      CAPTURE(segments);
      const long long volume = static_cast<long long>(segments) * (size - 1);
      const int most_rounds = 2 * ceil_log2(size) + segments - 2;
      for (const int root : {0, size - 1}) {
        const auto up = tutti::count(tutti::two_tree::reduce{root, segments}, size);
        const auto down = tutti::count(tutti::two_tree::broadcast{root, segments}, size);
        CHECK(up.rounds <= most_rounds);
        CHECK(up.fan_in == 1);
        CHECK(up.volume == volume);
        CHECK(up.sent == segments);
        CHECK(up.received <= segments + segments % 2);  // an odd number is not the same in both trees
        CHECK(down.rounds == up.rounds);
        CHECK(down.fan_in == 1);
        CHECK(down.received == segments);
        CHECK(down.sent == up.received);
      }
      const auto both = tutti::count(tutti::two_tree::allreduce{segments}, size);
      CHECK(both.rounds <= 2 * most_rounds);
      CHECK(both.fan_in == 1);
      CHECK(both.volume == 2 * volume);
      CHECK(both.sent <= 2 * segments + 1);
      CHECK(both.folds <= segments + segments % 2);
    }
  }
}

TEST_CASE("the tree in order and its mirror image use every port once a round") {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 18, 30, 63, 64, 65, 100, 1022, 1023, 65536}) {
    CAPTURE(size);
    const tutti::detail::in_order_tree tree{size};
    const int n = size - size % 2;
    int last = 0;
    bool right = tree.time(tree.root()) == 1 && tree.parent(tree.root()) == 0;
    const auto mirrored = [&](int i) { return i > n ? i : n + 1 - i; };
    for (int i = 1; i <= size; ++i) {
      const int above = tree.parent(i);
      const int time = tree.time(i);
      last = std::max(last, time);
      if (above != 0) {
        right &= tree.left_child(above) == i || tree.right_child(above) == i;
        right &= time == tree.time(above) + 1 || time == tree.time(above) + 2;
      }
      const int left = tree.left_child(i);
      const int other = tree.right_child(i);
      if (left != 0) right &= tree.parent(left) == i;
      if (other != 0) right &= tree.parent(other) == i;
      // In the mirror image every time is one less.
      if (left != 0 && other != 0) right &= (tree.time(left) + tree.time(other)) % 2 == 1;
      right &= (time + tree.time(mirrored(i)) - 1) % 2 == 1;
      if (i <= n) right &= left == 0 || tree.left_child(mirrored(i)) == 0;
    }
    CHECK(right);
    CHECK(last == tree.last_time());
  }
}

TEST_CASE("a rank's rounds are known without asking for each") {
  const tutti::two_tree::broadcast s{0, 2};
  const place far{1'000'000, 1'048'576};
  int busy = 0;
  for (int k = s.next_round(far, 0); k < s.rounds(far); k = s.next_round(far, k + 1)) {
    int steps = 0;
    s.round(far, k, [&](auto) { ++steps; });
    CHECK(steps > 0);
    ++busy;
  }
  CHECK(busy <= 4);
}
