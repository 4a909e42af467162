// SPDX-License-Identifier: BSL-1.0

// The collectives that fold values, by every algorithm, under a virtual clock, on threads and on processes.

#include "collective/by_every_algorithm.hpp"
#include "deadline.hpp"
#include "simulation/conformance.hpp"

using conformance::by_every_algorithm;
using conformance::simulated_cases;

TEST_CASE("simulated, threads and processes: reduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::reduce();
}

TEST_CASE("simulated, threads and processes: reduce_scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::reduce_scatter();
}

TEST_CASE("simulated, threads and processes: allreduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::allreduce();
}

TEST_CASE("simulated, threads and processes: scan and exscan by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::scan_and_exscan();
}
