// SPDX-License-Identifier: BSL-1.0
#pragma once

// A collective that moves values, in all cases.

#include <complex>
#include <cstddef>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "collective/movement_checks.hpp"
#include "deadline.hpp"

namespace conformance {

/// How many values each rank has, where `n` are those of a broadcast, or else of one rank's block.
template <tutti::collective C>
constexpr std::size_t values_for(int ranks, std::size_t n) {
  constexpr bool for_each_rank = C == tutti::collective::scatter || C == tutti::collective::alltoall;
  return for_each_rank ? n * static_cast<std::size_t>(ranks) : n;
}

template <tutti::collective C, class Launcher, class T, class Algorithms>
void check_movements(Algorithms chosen) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths =
        C == tutti::collective::broadcast ? vector_lengths<T>(ranks) : block_lengths<T>();
    const values<T> data(ranks, values_for<C>(ranks, lengths.back()));
    for_each_algorithm<C>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_movement<C, A>(comm, found, data, n, roots(ranks));
      });
    });
  }
}

template <tutti::collective C, class Launcher, class Algorithms>
void check_movements_of_every_type(Algorithms few) {
  check_movements<C, Launcher, char>(few);
  check_movements<C, Launcher, triple>(few);
  check_movements<C, Launcher, line>(few);
  if constexpr (!test::sanitized) {
    check_movements<C, Launcher, int>(few);
    check_movements<C, Launcher, double>(few);
    check_movements<C, Launcher, std::complex<float>>(few);
  }
}

/// Of vectors that are written past the caches.
template <tutti::collective C, class Launcher>
void check_long_movements() {
  for (const int ranks : {2, 3}) {
    const std::vector<int> last{ranks - 1};
    const values<float> data(ranks, values_for<C>(ranks, streaming_length<float>(ranks)));
    for_each_algorithm<C>(representative_algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        check_movement<C, A>(comm, found, data, streaming_length<float>(ranks), last);
      });
    });
  }
}

}  // namespace conformance
