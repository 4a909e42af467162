// SPDX-License-Identifier: BSL-1.0

// Many ranks. (2^20 of them: examples/simulate.)

#include <tutti/schedule/algorithms.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

#include <string_view>

using namespace tutti;
using enum tutti::collective;

namespace {

/// `circulant`, counting how often it is asked for what is left of a way.
struct counted {
  static constexpr std::string_view name = "counted";
  static constexpr int rounds(int size) { return circulant::rounds(size); }
  static constexpr hop entry(int size, int k) { return circulant::entry(size, k); }
  static inline long long looks = 0;
};

}  // namespace

template <>
struct tutti::detail::remaining_way<counted> {
  static bool nested(int) { return true; }
  static int before(int size, int k, int h) {
    ++counted::looks;
    return remaining_way<circulant>::before(size, k, h);
  }
};

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

TEST_CASE("2^14 ranks scatter without looking at every block in every round") {
  counted::looks = 0;
  const simulation_result r = simulate(scatter_of<counted>{0}, ranks, 8, net);
  CHECK(r.messages == ranks - 1);
  CHECK(r.rounds == 14);
  // Half of 14 * 2^14 blocks are sent, and looked at at both ends; beside that a few looks for each rank and round.
  CHECK(counted::looks < 4 * 14 * ranks);
}

TEST_CASE("Swing among 2^14 + 1 ranks") {
  const simulation_result r = simulate(schedule_for<allreduce, swing>{}, ranks + 1, 8, net);
  CHECK(r.rounds == 28);
  CHECK(r.messages == 2 * (14LL * ranks + 2LL * ranks));
}
