// SPDX-License-Identifier: BSL-1.0

// One rank that stands for all comes to what all ranks come to, bit for bit.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace tutti;
using enum tutti::collective;

namespace {

/// The defaults; several ports; no time but the processor's; all times equal, so that everything happens at once.
constexpr network networks[] = {
    {},
    {.latency = 1e-6, .overhead = 2e-7, .gap = 1e-7, .byte = 1e-10, .fold = 5e-11, .ports = 3},
    {.latency = 0, .overhead = 1e-6, .gap = 0, .byte = 0, .fold = 1e-9, .ports = 1},
    {.latency = 1e-6, .overhead = 0, .gap = 1e-6, .byte = 1e-9, .fold = 1e-9, .ports = 64}};

void check_same(const simulation_result& one, const simulation_result& all) {
  CHECK(one.makespan == all.makespan);
  CHECK(one.rounds == all.rounds);
  CHECK(one.messages == all.messages);
  CHECK(one.bytes == all.bytes);
  CHECK(one.busiest == all.busiest);
}

template <collective C, class A>
void check(int p) {
  if constexpr (implements<A, C>) {
    if (!supports<A>(p)) return;
    using S = schedule_for<C, A>;
    if constexpr (symmetric_schedule<S>::among(4)) {
      if (!symmetric_schedule<S>::among(p)) return;
      CAPTURE(name_of<A>());
      CAPTURE(name_of(C));
      CAPTURE(p);
      S s{};
      for (const network& net : networks) {
        for (const int each : {0, 1, 999}) {
          const auto bytes = static_cast<std::size_t>(each * p);
          check_same(simulate_one_rank(s, p, bytes, net), simulate_each_rank(s, p, bytes, net));
          CHECK(simulate(s, p, bytes, net) == simulate_one_rank(s, p, bytes, net));
        }
      }
    }
  }
}

template <class S>
constexpr bool symmetric(int size) {
  return symmetric_schedule<S>::among(size);
}

}  // namespace

TEST_CASE("where all ranks do the same one stands for all") {
  for (const int p : {1, 2, 3, 4, 7, 8, 12, 16}) {
    for_each_algorithm([&]<class A>() {
      check<allreduce, A>(p);  // a reduce-scatter and an allgather
      check<alltoall, A>(p);
      check<barrier, A>(p);
    });
  }
}

TEST_CASE("where ranks do different things none stands for all") {
  static_assert(!symmetric<schedule_for<allreduce, binomial>>(8));
  static_assert(!symmetric<schedule_for<allreduce, single_master>>(8));
  static_assert(!symmetric<schedule_for<broadcast, ring>>(8));
  static_assert(symmetric<schedule_for<allreduce, recursive_doubling>>(8));
  static_assert(!symmetric<schedule_for<allreduce, recursive_doubling>>(9));
  static_assert(symmetric<schedule_for<allreduce, circulant>>(9));
  static_assert(symmetric<schedule_for<allreduce, flat>>(9));
  // Uneven blocks: event by event.
  const auto uneven = simulate(schedule_for<allreduce, circulant>{}, 9, 100, network{});
  CHECK(uneven == simulate_each_rank(schedule_for<allreduce, circulant>{}, 9, 100, network{}));
  CHECK(uneven.events == uneven.messages);
}

namespace {
template <collective C>
void check_ring(int p, std::size_t bytes, const network& net) {
  schedule_for<C, ring> s{};
  CAPTURE(p);
  CAPTURE(bytes);
  check_same(simulate(s, p, bytes, net), simulate_each_rank(s, p, bytes, net));
}
}  // namespace

TEST_CASE("a ring takes as long as its largest block") {
  for (const network& net : networks) {
    for (const int p : {2, 3, 4, 5, 8, 13}) {
      for (const std::size_t bytes : {1u, 2u, 7u, 8u, 11u, 12u, 100u, 10'001u}) {
        check_ring<reduce_scatter>(p, bytes, net);
        check_ring<allgather>(p, bytes, net);
        check_ring<allreduce>(p, bytes, net);
      }
    }
  }
}

TEST_CASE("a ring of 2^20 ranks is simulated by 2^21 events") {
  const network net{};
  const simulation_result r = simulate(schedule_for<allreduce, ring>{}, 1 << 20, 8, net);
  const double hop = net.overhead + net.byte + net.latency + net.overhead;
  CHECK(r.rounds == 2 * ((1 << 20) - 1));
  CHECK(r.events == r.rounds);
  CHECK(r.makespan == doctest::Approx(((1 << 20) - 1) * (2 * hop + net.fold)).epsilon(1e-9));
  CHECK(r.bytes == 16LL * ((1 << 20) - 1));
}
