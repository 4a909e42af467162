// SPDX-License-Identifier: BSL-1.0

// What the busiest link carries in a reduce-scatter, in vectors.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/link_load.hpp>

#include <doctest/doctest.h>

using namespace tutti;

namespace {

template <class A, topology T>
double load(const T& wires) {
  const schedule_for<collective::reduce_scatter, A> s{};
  return link_load(s, wires) / s.blocks(wires.size);
}

}  // namespace

TEST_CASE("a ring of 64: ring 0.98, swing 1.55, pat and hypercube doubling 3, circulant 21.3 vectors") {
  const ring_topology wires{64};
  CHECK(load<ring>(wires) == 63.0 / 64);
  CHECK(load<bine>(wires) == 99.0 / 64);
  CHECK(load<swing>(wires) == 99.0 / 64);
  CHECK(load<pat>(wires) == 3);
  CHECK(load<hypercube_doubling>(wires) == 3);
  CHECK(load<circulant>(wires) == 1365.0 / 64);  // the sum of the squares of 32, 16, 8, 4, 2, 1
}

TEST_CASE("with a wire for each pair no link is shared") { CHECK(load<circulant>(full_topology{64}) == 0); }

TEST_CASE("an 8 x 8 torus: rows and columns are rings") {
  const torus_topology wires{8, 8};
  // All 64 messages of a ring's round go one column up, 8 of them one row up too: one block on each link used.
  CHECK(load<ring>(wires) == 63.0 / 64);
  // Distances 32, 16, 8 are 4, 2, 1 rows; 4, 2, 1 are columns.
  CHECK(load<circulant>(wires) == doctest::Approx((4 * 32 + 2 * 16 + 8 + 4 * 4 + 2 * 2 + 1) / 64.0));
}

TEST_CASE("a fat tree: neighbours first loads its top least, and taper loads it more") {
  const fat_tree_topology full{64, 4, 1};
  const fat_tree_topology tapered{64, 4, 4};
  // Full bisection carries what the ports can.
  CHECK(load<circulant>(full) == doctest::Approx(63.0 / 64));
  CHECK(load<pat>(full) == doctest::Approx(63.0 / 64));
  // Tapered to one cable at the top: over distance d the d lowest of the 16 ranks below it send through it.
  CHECK(load<pat>(tapered) == doctest::Approx((32.0 + 2 * 16 + 4 * 8 + 8 * 4 + 16 * 2 + 16) / 64));
  CHECK(load<circulant>(tapered) == doctest::Approx((16 * (32.0 + 16) + 8 * 8 + 4 * 4 + 2 * 2 + 1) / 64));
  CHECK(load<circulant>(tapered) > 4 * load<pat>(tapered));
}

TEST_CASE("bytes are the blocks' bytes") {
  const schedule_for<collective::reduce_scatter, ring> s{};
  CHECK(link_load(s, ring_topology{8}, 80) == 70);
  CHECK(link_load(s, ring_topology{8}, 1) == 7);  // one byte is in one block, which walks the ring
}

static_assert(link_load(schedule_for<collective::reduce_scatter, circulant>{}, ring_topology{4}) == 5);
