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
  static void broadcast() {
    rooted<tutti::collective::broadcast>(
        Cases::vector_lengths, []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                           int root) { check_broadcast<A>(comm, found, data, n, root); });
  }
  static void scatter() {
    rooted<tutti::collective::scatter>(Cases::block_lengths,
                                       []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                                   int root) { check_scatter<A>(comm, found, data, n, root); });
  }
  static void gather() {
    rooted<tutti::collective::gather>(Cases::block_lengths,
                                      []<class A>(auto& comm, findings& found, const values<int>& data, std::size_t n,
                                                  int root) { check_gather<A>(comm, found, data, n, root); });
  }
  static void allgather() {
    unrooted<tutti::collective::allgather>([]<class A>(auto& comm, findings& found, const values<int>& data,
                                                       std::size_t n) { check_allgather<A>(comm, found, data, n); });
  }
  static void alltoall() {
    unrooted<tutti::collective::alltoall>([]<class A>(auto& comm, findings& found, const values<int>& data,
                                                      std::size_t n) { check_alltoall<A>(comm, found, data, n); });
  }
  static void reduce() {
    folding<tutti::collective::reduce>([]<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
      for (const int root : roots(comm.size())) check_reduce<A>(comm, found, data, n, root);
    });
  }
  static void reduce_scatter() {
    folding<tutti::collective::reduce_scatter>(
        []<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
          check_reduce_scatter<A>(comm, found, data, n);
        });
  }
  static void allreduce() {
    folding<tutti::collective::allreduce>([]<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
      check_allreduce<A>(comm, found, data, n);
    });
  }
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
  /// `check.template operator()<A>(comm, found, data, length, root)` in every case of a collective that has a root.
  template <tutti::collective C, class F>
  static void rooted(std::vector<std::size_t> (*lengths)(int), F check) {
    for (const int ranks : Cases::rank_counts) {
      const values<int> data(ranks, lengths(ranks).back() * static_cast<std::size_t>(ranks));
      Cases::template on_all<C>(ranks, [&]<class A>(auto& comm, findings& found) {
        for (const int root : roots(ranks))
          for (const std::size_t n : lengths(ranks)) check.template operator()<A>(comm, found, data, n, root);
      });
    }
  }
  template <tutti::collective C, class F>
  static void unrooted(F check) {
    for (const int ranks : Cases::rank_counts) {
      const std::vector<std::size_t> lengths = Cases::block_lengths(ranks);
      const values<int> data(ranks, lengths.back() * static_cast<std::size_t>(ranks));
      Cases::template on_all<C>(ranks, [&]<class A>(auto& comm, findings& found) {
        for (const std::size_t n : lengths) check.template operator()<A>(comm, found, data, n);
      });
    }
  }
  /// `check.template operator()<A>(comm, found, data, n)`: floats by every algorithm; then an operation that does not
  /// commute by those that keep rank order, and by the others one that does.
  template <tutti::collective C, class F>
  static void folding(F check) {
    for (const int ranks : Cases::rank_counts) {
      const std::vector<std::size_t> lengths = Cases::vector_lengths(ranks);
      const contributions<float, std::plus<>> floats(ranks, lengths.back(), {});
      const contributions<unsigned, compose> functions(ranks, lengths.back(), {});
      const contributions<unsigned, std::plus<>> integers(ranks, lengths.back(), {});
      Cases::template on_all<C>(ranks, [&]<class A>(auto& comm, findings& found) {
        if constexpr (C != tutti::collective::allreduce || alike<A, C>()) {
          for (const std::size_t n : lengths) check.template operator()<A>(comm, found, floats, n);
        }
        if constexpr (ordered<A, C>()) {
          check.template operator()<A>(comm, found, functions, lengths.back());
        } else {
          check.template operator()<A>(comm, found, integers, lengths.back());
        }
      });
    }
  }
};

}  // namespace conformance
