// SPDX-License-Identifier: BSL-1.0

// The conformance suite on mpi: one element type for each collective, few lengths. By every algorithm if it is compiled
// with TUTTI_TEST_EVERY_ALGORITHM, which takes as long as all other tests of mpi together; else by one of each kind.

#include "transport/mpi_ranks.hpp"

#include <array>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "collective/by_every_algorithm.hpp"

namespace conformance {

struct mpi {
  static constexpr const char* name = "mpi";
  using communicator = tutti::communicator<tutti::mpi>;
  template <class F>
  static void run(int ranks, F&& f) {
    test::run_mpi_on(ranks, std::forward<F>(f));
  }
};

#if defined(TUTTI_TEST_EVERY_ALGORITHM)
using mpi_algorithms = decltype(joined(algorithms{}, list<tutti::native>{}));
#else
using mpi_algorithms =
    list<tutti::native, tutti::automatic, tutti::flat, tutti::circulant, tutti::binomial, tutti::recursive_doubling,
         tutti::circulant_pipelined, tutti::canonical_halving, tutti::chain>;
#endif

struct mpi_cases {
  static constexpr std::array rank_counts{1, 2, 3, 4, 5, 7, 8};
  /// None, fewer and more elements than ranks, and messages that go straight from buffer to buffer.
  static std::vector<std::size_t> vector_lengths(int ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    if (ranks == 2 || ranks == 3) return {0, p + 1, 1003, 30'003};
    const std::set<std::size_t> lengths{0, 1, p + 1, 1003};
    return {lengths.begin(), lengths.end()};
  }
  static std::vector<std::size_t> block_lengths(int ranks) {
    if (ranks == 2 || ranks == 3) return {0, 300, 10'001};
    return {0, 1, 300};
  }
  template <tutti::collective C, class F>
  static void on_all(int ranks, F&& f) {
    on_ranks<mpi>(ranks, [&](mpi::communicator& comm, findings& found) {
      for_each_algorithm<C>(mpi_algorithms{}, ranks, [&]<class A>() { f.template operator()<A>(comm, found); });
    });
  }
};

}  // namespace conformance

using on_mpi = conformance::by_every_algorithm<conformance::mpi_cases>;

TEST_CASE("mpi: every collective by every algorithm") {
  const test::deadline limit(std::chrono::seconds(100));
  SUBCASE("broadcast") { on_mpi::broadcast(); }
  SUBCASE("scatter") { on_mpi::scatter(); }
  SUBCASE("gather") { on_mpi::gather(); }
  SUBCASE("allgather") { on_mpi::allgather(); }
  SUBCASE("alltoall") { on_mpi::alltoall(); }
  SUBCASE("reduce") { on_mpi::reduce(); }
  SUBCASE("reduce_scatter") { on_mpi::reduce_scatter(); }
  SUBCASE("allreduce") { on_mpi::allreduce(); }
  SUBCASE("scan and exscan") { on_mpi::scan_and_exscan(); }
}
