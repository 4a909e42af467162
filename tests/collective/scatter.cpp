// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/scatter.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "collective/movement_checks.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
constexpr auto verb = tutti::collective::scatter;

template <class Launcher, class T, class Algorithms>
void check_all(Algorithms chosen) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = block_lengths<T>();
    const values<T> data(ranks, lengths.back() * static_cast<std::size_t>(ranks));
    for_each_algorithm<verb>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const int root : roots(ranks)) {
          for (const std::size_t m : lengths) check_scatter<A>(comm, found, data, m, root);
        }
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("scatter by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher, float>(algorithms{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("scatter of every type", Launcher, every_type) {
  constexpr list<tutti::circulant, tutti::binomial> few;
  check_all<Launcher, char>(few);
  check_all<Launcher, triple>(few);
  check_all<Launcher, line>(few);
  if constexpr (!test::sanitized) {
    check_all<Launcher, int>(few);
    check_all<Launcher, double>(few);
    check_all<Launcher, std::complex<float>>(few);
  }
}
TEST_CASE_TEMPLATE_APPLY(every_type, launchers);

TEST_CASE_TEMPLATE_DEFINE("scatter of vectors that are written past the caches", Launcher, every_long) {
  for (const int ranks : {2, 3}) {
    const values<float> data(ranks, streaming_length<float> * static_cast<std::size_t>(ranks));
    for_each_algorithm<verb>(representative_algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        check_scatter<A>(comm, found, data, streaming_length<float>, ranks - 1);
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
