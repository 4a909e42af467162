// SPDX-License-Identifier: BSL-1.0

// The collectives that move values and the barrier, by every algorithm, under a virtual clock, on threads and on
// processes.

#include <tutti/collective/barrier.hpp>

#include "collective/by_every_algorithm.hpp"
#include "deadline.hpp"
#include "simulation/conformance.hpp"

using namespace conformance;
using tutti::collective;

TEST_CASE("simulated, threads and processes: broadcast by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::broadcast();
}

TEST_CASE("simulated, threads and processes: scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::scatter();
}

TEST_CASE("simulated, threads and processes: gather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::gather();
}

TEST_CASE("simulated, threads and processes: allgather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::allgather();
}

TEST_CASE("simulated, threads and processes: alltoall by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<simulated_cases>::alltoall();
}

TEST_CASE("nobody leaves a simulated barrier before everybody has come, by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const int ranks : simulated_rank_counts) {
    simulate_every_algorithm<collective::barrier>(ranks, [&]<class A>(auto& comm, findings& found) {
      found.about("barrier<", tutti::name_of<A>(), ">");
      for (int late = 0; late < ranks; late += 1 + ranks / 2) {
        tutti::barrier<A>(comm);
        const double begin = comm.transport().now();
        if (comm.rank() == late) comm.transport().spend(1.0);
        tutti::barrier<A>(comm);
        found.check(comm.transport().now() >= begin + 0.999, "a rank has left before the last has come");
      }
    });
  }
}
