// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/topology.hpp>

#include <doctest/doctest.h>

#include <set>
#include <vector>

using tutti::fat_tree_topology;
using tutti::full_topology;
using tutti::ring_topology;
using tutti::torus_topology;

namespace {

template <tutti::topology T>
std::vector<int> way(const T& wires, int from, int to) {
  std::vector<int> links;
  for (int i = 0; i < wires.hops(from, to); ++i) links.push_back(wires.link(from, to, i));
  return links;
}

/// Every link that a topology names exists, none is crossed twice, and together the messages need all of them.
template <tutti::topology T>
void check_ways(const T& wires) {
  std::set<int> used;
  for (int from = 0; from < wires.size; ++from) {
    CHECK(wires.hops(from, from) == 0);
    for (int to = 0; to < wires.size; ++to) {
      std::set<int> mine;
      for (const int link : way(wires, from, to)) {
        CHECK(link >= 0);
        CHECK(link < wires.links());
        CHECK(mine.insert(link).second);
      }
      used.merge(mine);
    }
  }
  CHECK(static_cast<int>(used.size()) == (wires.size > 1 ? wires.links() : 0));
}

struct no_widths {
  int size;
  int links() const { return 0; }
  int hops(int, int) const { return 0; }
  int link(int, int, int) const { return 0; }
};
static_assert(!tutti::topology<no_widths>);

}  // namespace

TEST_CASE("with a wire for each pair nothing is shared") {
  CHECK(full_topology{5}.links() == 0);
  CHECK(full_topology{5}.hops(0, 4) == 0);
}

TEST_CASE("on a ring messages walk the shorter way, upward where both are equally long") {
  const ring_topology ring{6};
  CHECK(way(ring, 4, 0) == std::vector{4, 5});
  CHECK(way(ring, 0, 4) == std::vector{6, 11});
  CHECK(way(ring, 5, 2) == std::vector{5, 0, 1});
  CHECK(way(ring, 2, 5) == std::vector{2, 3, 4});
  for (int size = 3; size <= 9; ++size) check_ways(ring_topology{size});
}

TEST_CASE("on a torus messages walk along the row, then along the column") {
  const torus_topology torus{4, 3};
  CHECK(torus.size == 12);
  // From column 0, row 0 to column 3, row 1: one column down, one row up.
  CHECK(way(torus, 0, 7) == std::vector{4 * 0 + 1, 4 * 3 + 2});
  // From column 1, row 0 to column 3, row 2: two columns up, one row down.
  CHECK(way(torus, 1, 11) == std::vector{4 * 1 + 0, 4 * 2 + 0, 4 * 3 + 3});
  for (int columns = 3; columns <= 5; ++columns) {
    for (int rows = 3; rows <= 5; ++rows) check_ways(torus_topology{columns, rows});
  }
}

TEST_CASE("in a fat tree messages climb to the lowest switch above both ranks") {
  const fat_tree_topology tree{8, 2, 1};
  CHECK(tree.links() == 2 * (8 + 4 + 2));
  CHECK(way(tree, 0, 1) == std::vector{0, 14 + 1});
  CHECK(way(tree, 1, 2) == std::vector{1, 8, 14 + 9, 14 + 2});
  CHECK(way(tree, 0, 7) == std::vector{0, 8, 12, 14 + 13, 14 + 11, 14 + 7});
  for (const int size : {2, 3, 7, 8, 9, 16, 17}) {
    for (const int arity : {2, 3, 4}) check_ways(fat_tree_topology{size, arity, 1});
  }
}

TEST_CASE("a fat tree's links widen upward, less so with taper") {
  const fat_tree_topology full{64, 4, 1};
  const fat_tree_topology tapered{64, 4, 2};
  const int levels[] = {0, 64, 64 + 16};
  for (const int direction : {0, full.links() / 2}) {
    CHECK(full.width(direction + levels[0]) == 1);
    CHECK(full.width(direction + levels[1]) == 4);
    CHECK(full.width(direction + levels[2]) == 16);
    CHECK(tapered.width(direction + levels[0]) == 1);
    CHECK(tapered.width(direction + levels[1]) == 2);
    CHECK(tapered.width(direction + levels[2]) == 4);
  }
}
