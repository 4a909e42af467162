// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/gather.hpp>

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
constexpr auto verb = tutti::collective::gather;

template <class Launcher, class T, class Algorithms>
void check_all(Algorithms chosen) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = block_lengths<T>();
    const values<T> data(ranks, lengths.back());
    for_each_algorithm<verb>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const int root : roots(ranks)) {
          for (const std::size_t m : lengths) check_gather<A>(comm, found, data, m, root);
        }
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("gather by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher, float>(algorithms{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("gather of every type", Launcher, every_type) {
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

TEST_CASE_TEMPLATE_DEFINE("gather of vectors that are written past the caches", Launcher, every_long) {
  for (const int ranks : {2, 3}) {
    const values<float> data(ranks, streaming_length<float>);
    for_each_algorithm<verb>(representative_algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        check_gather<A>(comm, found, data, streaming_length<float>, ranks - 1);
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
