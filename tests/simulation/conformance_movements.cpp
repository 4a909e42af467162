// SPDX-License-Identifier: BSL-1.0

// The collectives that move values and the barrier, by every algorithm, under a virtual clock, on threads and on
// processes.

#include <tutti/collective/barrier.hpp>

#include <cstddef>
#include <vector>

#include "collective/movement_checks.hpp"
#include "deadline.hpp"
#include "simulation/conformance.hpp"

using namespace conformance;
using tutti::collective;

namespace {

/// `check.template operator()<A>(comm, found, data, length, root)` in every case of a collective that has a root.
template <collective C, class F>
void check_rooted(std::vector<std::size_t> (*lengths)(int), F check) {
  for (const int ranks : simulated_rank_counts) {
    const values<int> data(ranks, lengths(ranks).back() * static_cast<std::size_t>(ranks));
    on_all_by_every_algorithm<C>(ranks, [&]<class A>(auto& comm, findings& found) {
      for (const int root : roots(ranks))
        for (const std::size_t n : lengths(ranks)) check.template operator()<A>(comm, found, data, n, root);
    });
  }
}
template <collective C, class F>
void check_unrooted(F check) {
  for (const int ranks : simulated_rank_counts) {
    const std::vector<std::size_t> lengths = simulated_block_lengths(ranks);
    const values<int> data(ranks, lengths.back() * static_cast<std::size_t>(ranks));
    on_all_by_every_algorithm<C>(ranks, [&]<class A>(auto& comm, findings& found) {
      for (const std::size_t n : lengths) check.template operator()<A>(comm, found, data, n);
    });
  }
}

}  // namespace

TEST_CASE("simulated, threads and processes: broadcast by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_rooted<collective::broadcast>(simulated_vector_lengths,
                                      []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                                  int root) { check_broadcast<A>(comm, found, data, n, root); });
}

TEST_CASE("simulated, threads and processes: scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_rooted<collective::scatter>(simulated_block_lengths,
                                    []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                                int root) { check_scatter<A>(comm, found, data, n, root); });
}

TEST_CASE("simulated, threads and processes: gather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_rooted<collective::gather>(simulated_block_lengths,
                                   []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                               int root) { check_gather<A>(comm, found, data, n, root); });
}

TEST_CASE("simulated, threads and processes: allgather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_unrooted<collective::allgather>([]<class A>(auto& comm, findings& found, const values<int>& data,
                                                    std::size_t n) { check_allgather<A>(comm, found, data, n); });
}

TEST_CASE("simulated, threads and processes: alltoall by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_unrooted<collective::alltoall>([]<class A>(auto& comm, findings& found, const values<int>& data,
                                                   std::size_t n) { check_alltoall<A>(comm, found, data, n); });
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
