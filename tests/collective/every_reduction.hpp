// SPDX-License-Identifier: BSL-1.0
#pragma once

// A collective that folds values, in all cases.

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "collective/reduction_checks.hpp"

namespace conformance {

template <tutti::collective C, class Launcher, class Algorithms, class T, class Op>
void check_reductions(Algorithms chosen, kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    for_each_algorithm_for<C, T, Op>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_reduction<C, A>(comm, found, data, n, roots(ranks));
      });
    });
  }
}

/// Of vectors that are written past the caches.
template <tutti::collective C, class Launcher, class T, class Algorithms>
void check_long_reductions(Algorithms chosen) {
  for (const int ranks : {2, 3}) {
    const std::vector<int> last{ranks - 1};
    const contributions<T, std::plus<>> data(ranks, streaming_length<T>(ranks), {});
    for_each_algorithm_for<C, T, std::plus<>>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        check_reduction<C, A>(comm, found, data, streaming_length<T>(ranks), last);
      });
    });
  }
}

}  // namespace conformance
