// SPDX-License-Identifier: BSL-1.0

// Links that messages share make them wait for each other.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/link_load.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace tutti;
using enum tutti::collective;

namespace {

constexpr network bytes_only{.latency = 0, .overhead = 0, .gap = 0, .byte = 1e-9, .fold = 0, .ports = 1};

/// Rank 0 sends to rank `To`, rank 1 to rank `To + 1`, and so on: `Senders` of them.
template <int To, int Senders>
struct shifted {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = false;
  constexpr int rounds(place) const { return 1; }
  constexpr int blocks(int) const { return 1; }
  template <class Emit>
  constexpr void round(place at, int, Emit&& emit) const {
    if (at.rank < Senders) emit(send_to{at.rank + To, one_block(0)});
    if (at.rank >= To && at.rank < To + Senders) emit(recv_from{at.rank - To, one_block(0)});
  }
};

doctest::Approx about(double value) { return doctest::Approx(value).epsilon(1e-12); }

}  // namespace

TEST_CASE("one message alone takes as long as without links: bytes pass on as they come") {
  network net = bytes_only;
  net.latency = 5e-6;
  CHECK(simulate(shifted<4, 1>{}, ring_topology{16}, 1000, net).makespan == about(6e-6));
  CHECK(simulate(shifted<4, 1>{}, torus_topology{4, 4}, 1000, net).makespan == about(6e-6));
  CHECK(simulate(shifted<4, 1>{}, fat_tree_topology{16, 4, 1}, 1000, net).makespan == about(6e-6));
}

TEST_CASE("messages over one link go one after the other") {
  // On a ring the links from 3 to 4 carry all four.
  CHECK(simulate(shifted<4, 4>{}, ring_topology{16}, 1000, bytes_only).makespan == about(4e-6));
  CHECK(simulate(shifted<4, 4>{}, full_topology{16}, 1000, bytes_only).makespan == about(1e-6));
  // On a torus each has a column of its own.
  CHECK(simulate(shifted<4, 4>{}, torus_topology{4, 4}, 1000, bytes_only).makespan == about(1e-6));
  // A fat tree of full bisection has four cables, a tapered one two, a thin one one. A wide link takes bytes faster,
  // but no message comes faster than its sender's port lets it go.
  const auto tree = [](double taper) {
    return simulate(shifted<4, 4>{}, fat_tree_topology{16, 4, taper}, 1000, bytes_only).makespan;
  };
  CHECK(tree(1) == about(1e-6 + 0.75e-6));
  CHECK(tree(2) == about(1e-6 + 1.5e-6));
  CHECK(tree(4) == about(4e-6));
}

TEST_CASE("where every message of a round is a neighbour's, a ring is as good as a full network") {
  for (const int p : {3, 8, 13}) {
    const auto bytes = static_cast<std::size_t>(p) * 1000;
    const schedule_for<allreduce, ring> s{};
    CHECK(simulate(s, ring_topology{p}, bytes, network{}).makespan == about(simulate(s, p, bytes, network{}).makespan));
  }
}

TEST_CASE("long messages on a ring of 64: no faster than the busiest link, and ordered as its load") {
  const ring_topology wires{64};
  constexpr std::size_t bytes = 64 * 1000;
  const auto time = [&](auto s) { return simulate(s, wires, bytes, bytes_only).makespan; };
  const auto load = [&](auto s) { return link_load(s, wires, bytes) * bytes_only.byte; };
  const schedule_for<reduce_scatter, ring> walking{};
  const schedule_for<reduce_scatter, pat> near{};
  const schedule_for<reduce_scatter, circulant> far{};
  CHECK(time(walking) == about(load(walking)));
  CHECK(time(near) == about(load(near)));
  CHECK(time(far) >= load(far) * 0.99);
  CHECK(time(far) <= load(far) * 1.5);
}

TEST_CASE("bytes that no link delays take no longer for links") {
  for (const int p : {4, 8, 16}) {
    const schedule_for<allreduce, recursive_doubling> s{};
    const double alone = simulate(s, p, 1000, network{}).makespan;
    CHECK(simulate(s, fat_tree_topology{p, 2, 1}, 1000, network{}).makespan >= alone);
    CHECK(simulate(s, ring_topology{p}, 1000, network{}).makespan >= alone);
  }
}
