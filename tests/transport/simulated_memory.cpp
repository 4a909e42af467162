// SPDX-License-Identifier: BSL-1.0

// Memory that the system refuses a simulated run is resource_error, whoever asked for it, and nobody hangs.

#include "counted_new.hpp"
#include "deadline.hpp"
#include "transport/simulated.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
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
