// SPDX-License-Identifier: BSL-1.0
#pragma once

// One element type for each collective, by every algorithm. `Cases` says where and how many:
//
// - `rank_counts`: on how many ranks;
// - `vector_lengths(ranks)`, `block_lengths(ranks)`: lengths of whole vectors and of one rank's block, ascending;
// - `on_all<C>(ranks, f)`: `f.template operator()<A>(comm, findings)` for every algorithm of the collective, on so many
//   ranks of each transport.

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/movement_checks.hpp"
#include "collective/reduction_checks.hpp"

namespace conformance {

/// Two numbers of 16 bits are a function x -> a x + b modulo 2^16, and this is composition: associative, and it does
/// not commute.
struct compose {
  unsigned operator()(unsigned f, unsigned g) const {
    const unsigned a = f >> 16;
    return a * (g >> 16) << 16 | ((a * (g & 0xffff) + f) & 0xffff);
  }
};
static_assert(!tutti::is_commutative_v<compose, unsigned>);

template <class Cases>
struct by_every_algorithm {
  static void broadcast() { moving<tutti::collective::broadcast>(Cases::vector_lengths); }
  static void scatter() { moving<tutti::collective::scatter>(Cases::block_lengths); }
  static void gather() { moving<tutti::collective::gather>(Cases::block_lengths); }
  static void allgather() { moving<tutti::collective::allgather>(Cases::block_lengths); }
  static void alltoall() { moving<tutti::collective::alltoall>(Cases::block_lengths); }
  static void reduce() { folding<tutti::collective::reduce>(); }
  static void reduce_scatter() { folding<tutti::collective::reduce_scatter>(); }
  static void allreduce() { folding<tutti::collective::allreduce>(); }
  static void scan_and_exscan() {
    for (const int ranks : Cases::rank_counts) {
      const std::vector<std::size_t> lengths = Cases::vector_lengths(ranks);
      const contributions<unsigned, compose> data(ranks, lengths.back(), {});
      const prefixes<unsigned, compose> expected(data, ranks, lengths.back());
      Cases::template on_all<tutti::collective::scan>(ranks, [&]<class A>(auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_scan<A>(comm, found, data, expected, n);
      });
      Cases::template on_all<tutti::collective::exscan>(ranks, [&]<class A>(auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_exscan<A>(comm, found, data, expected, n);
      });
    }
  }

 private:
  template <tutti::collective C>
  static void moving(std::vector<std::size_t> (*lengths_for)(int)) {
    for (const int ranks : Cases::rank_counts) {
      const std::vector<std::size_t> lengths = lengths_for(ranks);
      const values<int> data(ranks, lengths.back() * static_cast<std::size_t>(ranks));
      Cases::template on_all<C>(ranks, [&]<class A>(auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_movement<C, A>(comm, found, data, n, roots(ranks));
      });
    }
  }
  /// Floats by every algorithm; then an operation that does not commute by those that keep rank order, and by the
  /// others one that does.
  template <tutti::collective C>
  static void folding() {
    for (const int ranks : Cases::rank_counts) {
      const std::vector<std::size_t> lengths = Cases::vector_lengths(ranks);
      const contributions<float, std::plus<>> floats(ranks, lengths.back(), {});
      const contributions<unsigned, compose> functions(ranks, lengths.back(), {});
      const contributions<unsigned, std::plus<>> integers(ranks, lengths.back(), {});
      Cases::template on_all<C>(ranks, [&]<class A>(auto& comm, findings& found) {
        if constexpr (C != tutti::collective::allreduce || alike<A, C>()) {
          for (const std::size_t n : lengths) check_reduction<C, A>(comm, found, floats, n, roots(ranks));
        }
        if constexpr (ordered<A, C>()) {
          check_reduction<C, A>(comm, found, functions, lengths.back(), roots(ranks));
        } else {
          check_reduction<C, A>(comm, found, integers, lengths.back(), roots(ranks));
        }
      });
    }
  }
};

}  // namespace conformance
