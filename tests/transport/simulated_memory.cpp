// SPDX-License-Identifier: BSL-1.0

// Memory that the system refuses a simulated run is resource_error, whoever asked for it, and nobody hangs. Divisions
// of its ranks leave none behind, and are under the same clock and links.

#include "counted_new.hpp"
#include "deadline.hpp"
#include "transport/simulated.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = simulated_communicator;

/// A program with messages of all kinds: small ones are copied at once, large ones late, and some are under way when
/// their sender leaves.
void program(communicator& comm, std::vector<float>& small, std::vector<float>& large) {
  tutti::allreduce<tutti::recursive_doubling>(comm, small, std::plus{});
  auto pending = tutti::iallreduce<tutti::ring>(comm, large, std::plus{});
  tutti::allreduce(comm, small, std::plus{});
  pending.wait();
  auto part = comm.split(comm.rank() / 2);
  tutti::allreduce<tutti::ring>(part, small, std::plus{});
  tutti::broadcast<tutti::binomial>(comm, large, 0);
}

}  // namespace

TEST_CASE(
    "each allocation refused to a rank of a simulated run is resource_error; not under a sanitizer that "
    "allocates" *
    doctest::skip(!counting)) {
  const deadline limit(120s);
  for (const bool record : {false, true}) {
    for (const int bad : {0, 1, 2}) {
      std::size_t nth = 1;
      for (;; ++nth) {
        CAPTURE(record);
        CAPTURE(bad);
        CAPTURE(nth);
        bool reached = false;
        const outcome end = outcome_of([&] {
          tutti::run_simulated(3, {.record = record}, [&](communicator& comm) {
            std::vector<float> small(3, 1.0F);
            std::vector<float> large(3000, 1.0F);
            struct refuse_here {
              bool here;
              bool& reached;
              ~refuse_here() {
                if (here) reached = refused == 0;
                if (here) refused = 0;
              }
            } const scope{comm.rank() == bad, reached};
            if (scope.here) refused = nth;
            program(comm, small, large);
          });
        });
        CAPTURE(end);
        if (!reached) {
          CHECK(end == outcome{});
          break;
        }
        // Itself, or in the words of a rank that failed of it.
        CHECK((end.kind == "resource_error" || end.kind == "peer_failed"));
        CHECK(contains(end.text, "the system refused "));
        CHECK(contains(end.text, " bytes"));
        REQUIRE(nth < 500);
      }
      CHECK(nth > 8);
    }
  }
}

TEST_CASE(
    "each allocation refused before and after a simulated run is resource_error; not under a sanitizer that "
    "allocates" *
    doctest::skip(!counting)) {
  const deadline limit(120s);
  const tutti::simulated_options options{
      .drop = {{.from = 0, .to = 1, .message = 100}}, .crash = {{.rank = 1, .message = 100}}, .record = true};
  std::size_t nth = 1;
  for (;; ++nth) {
    CAPTURE(nth);
    bool reached = false;
    refused = nth;
    const outcome end = outcome_of([&] {
      try {
        tutti::run_simulated(3, options, [](communicator& comm) { tutti::barrier(comm); });
      } catch (...) {
        reached = refused == 0;
        refused = 0;
        throw;
      }
      reached = refused == 0;
      refused = 0;
    });
    CAPTURE(end);
    if (!reached) {
      CHECK(end == outcome{});
      break;
    }
    CHECK(end.kind == "resource_error");
    CHECK(contains(end.text, "the system refused "));
    REQUIRE(nth < 500);
  }
  CHECK(nth > 20);
}

TEST_CASE("simulated ranks are divided as others are, under the same clock and links") {
  const deadline limit(60s);
  // Two pairs exchange a message each at the same time, then all four do.
  const tutti::simulated_options options{.net = {.latency = 1e-3, .overhead = 0, .gap = 0, .byte = 1e-6, .fold = 0}};
  double divided = 0;
  double ended = 0;
  const auto run = outcomes_of_simulated(4, options, [&](communicator& comm) {
    auto some = comm.rank() == 3 ? comm.split(tutti::undefined) : comm.split(std::optional(1), -comm.rank());
    REQUIRE(some.has_value() == (comm.rank() != 3));
    if (some) CHECK(some->rank() == 2 - comm.rank());
    auto pair = comm.split(comm.rank() / 2);
    tutti::barrier(comm);
    if (comm.rank() == 0) divided = comm.transport().now();
    std::vector<int> values(1000, comm.rank());
    tutti::allreduce<tutti::recursive_doubling>(pair, values, std::plus{});
    CHECK(values == std::vector<int>(1000, comm.rank() < 2 ? 1 : 5));
    CHECK(pair.transport().now() == comm.transport().now());
    if (comm.rank() == 0) ended = comm.transport().now();
    // Whoever waits in one advances the others.
    std::vector<int> one(100, 1);
    std::vector<int> two(100, 1);
    auto a = tutti::iallreduce<tutti::ring>(pair, one, std::plus{});
    auto b = tutti::iallreduce<tutti::ring>(comm, two, std::plus{});
    if (comm.rank() % 2 == 0) a.wait();
    b.wait();
    a.wait();
    CHECK((one[99] == 2 && two[99] == 4));
  });
  CHECK(run.run == outcome{});
  for (const outcome& o : run.of) CHECK(o == outcome{});
  CHECK(ended - divided == doctest::Approx(1e-3 + 4000e-6).epsilon(0.01));
}

TEST_CASE("a failure in a part of a simulated run fails it alone, the end of a rank all parts that have it") {
  const deadline limit(60s);
  std::vector<outcome> first(5);
  const auto mismatch = outcomes_of_simulated(5, {}, [&](communicator& comm) {
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    first[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
      if (comm.rank() == 3) part.abort("enough");
      std::vector<int> values(comm.rank() == 2 ? 4 : 5);
      for (int i = 0; i < 3; ++i) tutti::allreduce<tutti::ring>(part, values, std::plus{});
    });
    tutti::barrier(comm);
  });
  CHECK(mismatch.run == outcome{});
  for (const int rank : {0, 2, 4}) {
    const outcome& o = first[static_cast<std::size_t>(rank)];
    CHECK(o.kind == "mismatch");
    CHECK_MESSAGE(contains(o.text, " (ranks of a communicator of ranks 4, 2, 0)"), o.text);
  }
  for (const int rank : {1, 3})
    CHECK(first[static_cast<std::size_t>(rank)] ==
          outcome{"peer_failed", "rank 0 aborted: enough (ranks of a communicator of ranks 3, 1): peer failed", 0});

  for (const bool crashes : {true, false}) {
    // After the two divisions and the barrier rank 2 sends no more: it crashes or throws.
    tutti::simulated_options options;
    if (crashes) options.crash = {{.rank = 2, .message = 9}};
    const auto ended = outcomes_of_simulated(
        5, options,
        [&](communicator& comm) {
          auto part = comm.split(comm.rank() / 3);
          auto pair = comm.split(comm.rank() == 0 || comm.rank() == 2 ? 0 : 1, -comm.rank());
          tutti::barrier(comm);
          if (comm.rank() == 2 && !crashes) {
            comm.transport().spend(1.0);
            throw std::runtime_error("boom");
          }
          if (comm.rank() == 0)
            for (;;) tutti::barrier(pair);
          const int times = comm.rank() > 2 ? 10 : 1'000'000;
          for (int i = 0; i < times; ++i) tutti::barrier(part);
        },
        true);
    CHECK(ended.of[0].peer == 0);
    CHECK_MESSAGE(contains(ended.of[0].text, crashes ? "rank 0 crashed before it sent its message 9"
                                                     : "rank 0 failed: boom (ranks of a communicator of ranks 2, 0)"),
                  ended.of[0].text);
    CHECK(ended.of[1].peer == 2);
    CHECK_MESSAGE(contains(ended.of[1].text, crashes ? "rank 2 crashed before it sent its message 9, to rank "
                                                     : "rank 2 failed: boom (ranks of a communicator of ranks 0-2)"),
                  ended.of[1].text);
    for (const std::size_t rank : {3U, 4U}) CHECK(ended.of[rank] == outcome{});
  }
  // Who waits for whom, on whichever communicator.
  const auto stuck = outcomes_of_simulated(2, {}, [](communicator& comm) {
    auto part = comm.dup();
    tutti::barrier(comm.rank() == 0 ? comm : part);
  });
  CHECK_MESSAGE(contains(stuck.of[0].text, "rank 0 waits for rank 1 in round 0 of barrier"), stuck.of[0].text);
  CHECK_MESSAGE(contains(stuck.of[0].text, "(ranks of a communicator of ranks 0, 1)"), stuck.of[0].text);
  CHECK(stuck.of[1].kind == "timed_out");
}

TEST_CASE("ten thousand divisions of simulated ranks leave nothing behind") {
  const deadline limit(120s);
  for (const auto& [ranks, times] : {std::pair(1, 10'000), std::pair(3, 500)}) {
    long before = 0;
    long after = 0;
    tutti::run_simulated(ranks, {}, [&, count = times](communicator& comm) {
      for (int i = 0; i < count; ++i) {
        auto part = i % 3 == 0 ? comm.split(comm.rank()) : comm.dup();
        if (i % 10 == 0) tutti::barrier(part);
        if (comm.rank() == 0 && (i == 300 || i == count - 1)) (i == 300 ? before : after) = live_allocations.load();
      }
    });
    CHECK(after <= before + 200);  // some of the others are ahead, and messages under way
  }
}
