// SPDX-License-Identifier: BSL-1.0

#include <tutti/communicator/cartesian.hpp>

#include "communicator/outcome.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

using tutti::balanced_extents;
using tutti::cartesian;

namespace {

constexpr auto nobody = std::nullopt;

// A mesh of two rows and three columns:
//   0 1 2
//   3 4 5
constexpr auto mesh = cartesian<2>::mesh({2, 3});
static_assert(mesh.size() == 6 && mesh.extents() == std::array{2, 3});
static_assert(!mesh.periodic(0) && !mesh.periodic(1));
static_assert(mesh.coordinates(0) == std::array{0, 0} && mesh.coordinates(5) == std::array{1, 2});
static_assert(mesh.rank_of({1, 0}) == 3 && mesh.rank_of({2, 0}) == nobody && mesh.rank_of({0, -1}) == nobody);
static_assert(mesh.shift(1, 1, 1) == cartesian<2>::partners{0, 2});
static_assert(mesh.shift(0, 1, 1) == cartesian<2>::partners{nobody, 1});
static_assert(mesh.shift(4, 0, 1) == cartesian<2>::partners{1, nobody});
static_assert(mesh.shift(4, 0, -1) == cartesian<2>::partners{nobody, 1});
static_assert(mesh.shift(0, 1, 2) == cartesian<2>::partners{nobody, 2});
static_assert(mesh.shift(4, 1, 0) == cartesian<2>::partners{4, 4});
static_assert(mesh.shift(4, 1, INT_MIN) == cartesian<2>::partners{nobody, nobody});
static_assert(mesh.neighbours(4) == std::array<std::optional<int>, 4>{1, nobody, 3, 5});
static_assert(mesh.line(4, 0) == cartesian<2>::line_place{1, 1});
static_assert(mesh.line(4, 1) == cartesian<2>::line_place{3, 1});

// The same as a torus, and as a cylinder whose rows are rings.
constexpr auto torus = cartesian<2>::torus({2, 3});
static_assert(torus.periodic(0) && torus.periodic(1));
static_assert(torus.rank_of({-1, 5}) == 5 && torus.rank_of({4, -6}) == 0);
static_assert(torus.shift(0, 1, 1) == cartesian<2>::partners{2, 1});
static_assert(torus.shift(0, 1, -4) == cartesian<2>::partners{1, 2});
static_assert(torus.neighbours(0) == std::array<std::optional<int>, 4>{3, 3, 2, 1});
constexpr cartesian<2> cylinder({2, 3}, {false, true});
static_assert(cylinder.neighbours(0) == std::array<std::optional<int>, 4>{nobody, 3, 2, 1});
static_assert(cylinder.rank_of({0, 3}) == 0 && cylinder.rank_of({2, 0}) == nobody);

// A ring of its own in each dimension, and one rank alone.
constexpr auto ring = cartesian<1>::torus({5});
static_assert(ring.shift(4, 0, 1) == cartesian<1>::partners{3, 0} && ring.shift(2, 0, 5).source == 2);
static_assert(ring.shift(2, 0, INT_MAX).destination == (2 + INT_MAX % 5) % 5);
static_assert(cartesian<1>::torus({1}).neighbours(0) == std::array<std::optional<int>, 2>{0, 0});
static_assert(cartesian<3>::mesh({1, 1, 1}).neighbours(0) == std::array<std::optional<int>, 6>{});

static_assert(balanced_extents<1>(7) == std::array{7});
static_assert(balanced_extents<2>(1) == std::array{1, 1} && balanced_extents<2>(12) == std::array{4, 3});
static_assert(balanced_extents<2>(7) == std::array{7, 1} && balanced_extents<2>(16) == std::array{4, 4});
static_assert(balanced_extents<3>(8) == std::array{2, 2, 2} && balanced_extents<3>(12) == std::array{3, 2, 2});
static_assert(balanced_extents<3>(36) == std::array{4, 3, 3} && balanced_extents<3>(7) == std::array{7, 1, 1});
static_assert(balanced_extents<4>(30) == std::array{5, 3, 2, 1} && balanced_extents<3>(1000) == std::array{10, 10, 10});

std::string refused(const std::function<void()>& f) {
  const test::outcome o = test::outcome_of(f);
  CHECK(o.kind == "usage_error");
  return o.text;
}

/// What must hold on any grid, of any mixture of rings and lines.
void check_grid(const cartesian<3>& grid) {
  std::set<std::array<int, 3>> met;
  for (int rank = 0; rank < grid.size(); ++rank) {
    const auto at = grid.coordinates(rank);
    met.insert(at);
    CHECK(grid.rank_of(at) == rank);
    for (int d = 0; d < 3; ++d) {
      const auto i = static_cast<std::size_t>(d);
      CHECK(at[i] >= 0);
      CHECK(at[i] < grid.extents()[i]);
      CHECK(grid.line(rank, d).key == at[i]);
      for (const int distance : {-7, -1, 1, 2, 3}) {
        // Whom one sends to expects it from there.
        const auto with = grid.shift(rank, d, distance);
        if (with.destination) CHECK(grid.shift(*with.destination, d, distance).source == rank);
        if (with.source) CHECK(grid.shift(*with.source, d, distance).destination == rank);
        CHECK(with.destination == grid.shift(rank, d, -distance).source);
        CHECK(with.destination.has_value() ==
              (grid.periodic(d) || (at[i] + distance >= 0 && at[i] + distance < grid.extents()[i])));
        if (with.destination) CHECK(grid.line(*with.destination, d).color == grid.line(rank, d).color);
      }
      CHECK(grid.neighbours(rank)[2 * i] == grid.shift(rank, d, 1).source);
      CHECK(grid.neighbours(rank)[2 * i + 1] == grid.shift(rank, d, 1).destination);
    }
  }
  CHECK(met.size() == static_cast<std::size_t>(grid.size()));
  for (int d = 0; d < 3; ++d) {
    std::map<int, std::set<int>> lines;
    for (int rank = 0; rank < grid.size(); ++rank) lines[grid.line(rank, d).color].insert(grid.line(rank, d).key);
    for (const auto& [color, keys] : lines)
      CHECK(keys.size() == static_cast<std::size_t>(grid.extents()[static_cast<std::size_t>(d)]));
  }
}

/// The extents by trying all: with the smallest largest, then the smallest second, and so on.
std::array<int, 3> best_of_all(int size) {
  std::array<int, 3> best{size, size, size};
  for (int a = 1; a <= size; ++a) {
    for (int b = 1; size % a == 0 && b <= a; ++b) {
      if (size / a % b == 0 && size / a / b <= b) best = std::min(best, std::array{a, b, size / a / b});
    }
  }
  return best;
}

}  // namespace

TEST_CASE("grids of three dimensions, of lines and rings") {
  for (int rings = 0; rings < 8; ++rings)
    check_grid(cartesian<3>({2, 3, 4}, {(rings & 1) != 0, (rings & 2) != 0, (rings & 4) != 0}));
  check_grid(cartesian<3>::torus({1, 5, 2}));
}

TEST_CASE("balanced extents are the best of all") {
  for (int size = 1; size <= 300; ++size) {
    CAPTURE(size);
    CHECK(balanced_extents<3>(size) == best_of_all(size));
  }
  CHECK(balanced_extents<2>(INT_MAX) == std::array{INT_MAX, 1});  // a prime
  CHECK(balanced_extents<2>(46340 * 46340) == std::array{46340, 46340});
}

TEST_CASE("grids that cannot be are refused") {
  using test::contains;
  CHECK(contains(refused([] { cartesian<2>::mesh({3, 0}); }), "a grid of 2 dimensions: extent 0 must be at least 1"));
  CHECK(contains(refused([] { cartesian<2>::torus({-1, 2}); }), "extent -1 must be"));
  CHECK(contains(refused([] { cartesian<2>::mesh({65536, 32768}); }), "number of ranks 2147483648 must be at most"));
  CHECK(contains(refused([] { static_cast<void>(mesh.coordinates(6)); }), "rank 6 is not on the grid"));
  CHECK(contains(refused([] { static_cast<void>(mesh.shift(-1, 0, 1)); }), "rank -1 is not on the grid"));
  CHECK(contains(refused([] { static_cast<void>(mesh.shift(0, 2, 1)); }), "dimension 2 is none of them"));
  CHECK(contains(refused([] { static_cast<void>(mesh.line(0, -1)); }), "dimension -1 is none of them"));
  CHECK(contains(refused([] { static_cast<void>(balanced_extents<2>(0)); }), "balanced_extents: number of ranks is 0"));
}
