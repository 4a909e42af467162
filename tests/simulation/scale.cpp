// SPDX-License-Identifier: BSL-1.0

// Many ranks. (2^20 of them: examples/simulate.)

#include <tutti/schedule/algorithms.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

using namespace tutti;
using enum tutti::collective;

namespace {

constexpr int ranks = 1 << 14;
constexpr network net{};
constexpr double hop_time = net.overhead + net.latency + net.overhead;  // of an empty message

template <collective C, class A>
void check_logarithmic(int rounds) {
  const simulation_result r = simulate_each_rank(schedule_for<C, A>{}, ranks, 8, net);
  CAPTURE(name_of<A>());
  CHECK(r.rounds == rounds);
  CHECK(r.events == r.messages);
  CHECK(r.makespan > rounds * hop_time);
  CHECK(r.makespan < rounds * (hop_time + 16 * (net.byte + net.fold)));
}

}  // namespace

TEST_CASE("2^14 ranks, 8 bytes: as many times a latency as there are rounds") {
  check_logarithmic<allreduce, circulant>(28);
  check_logarithmic<allreduce, recursive_doubling>(14);
  check_logarithmic<allreduce, binomial>(28);
}

TEST_CASE("2^14 ranks hop_time a barrier") {
  const simulation_result r = simulate_each_rank(schedule_for<barrier, dissemination>{}, ranks, 0, net);
  CHECK(r.messages == 14LL * ranks);
  CHECK(r.makespan == doctest::Approx(14 * hop_time).epsilon(1e-12));
}

TEST_CASE("2^14 ranks around one master: its port takes in one after the other") {
  const simulation_result r = simulate(schedule_for<reduce, single_master>{}, ranks, 8, net);
  CHECK(r.messages == ranks - 1);
  // The processor's overhead for each is longer than the port's gap.
  const double each = net.overhead + 8 * net.fold;
  CHECK(r.makespan == doctest::Approx(net.overhead + 8 * net.byte + net.latency + (ranks - 1) * each).epsilon(1e-9));
}
