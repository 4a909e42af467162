// SPDX-License-Identifier: BSL-1.0

// The collectives that fold values, by every algorithm, under a virtual clock, on threads and on processes.

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/reduction_checks.hpp"
#include "deadline.hpp"
#include "simulation/conformance.hpp"

using namespace conformance;
using tutti::collective;

namespace {

/// Two numbers of 16 bits are a function x -> a x + b modulo 2^16, and this is composition: associative, and it does
/// not commute.
struct compose {
  unsigned operator()(unsigned f, unsigned g) const {
    const unsigned a = f >> 16;
    return a * (g >> 16) << 16 | ((a * (g & 0xffff) + f) & 0xffff);
  }
};
static_assert(!tutti::is_commutative_v<compose, unsigned>);

/// `check.template operator()<A>(comm, found, data, n)`: floats by every algorithm; then an operation that does not
/// commute by those that keep rank order, and by the others one that does.
template <collective C, class F>
void check_all(F check) {
  for (const int ranks : simulated_rank_counts) {
    const std::vector<std::size_t> lengths = simulated_vector_lengths(ranks);
    const contributions<float, std::plus<>> floats(ranks, lengths.back(), {});
    const contributions<unsigned, compose> functions(ranks, lengths.back(), {});
    const contributions<unsigned, std::plus<>> integers(ranks, lengths.back(), {});
    on_all_by_every_algorithm<C>(ranks, [&]<class A>(auto& comm, findings& found) {
      if constexpr (C != collective::allreduce || alike<A, C>()) {
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

}  // namespace

TEST_CASE("simulated, threads and processes: reduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_all<collective::reduce>([]<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
    for (const int root : roots(comm.size())) check_reduce<A>(comm, found, data, n, root);
  });
}

TEST_CASE("simulated, threads and processes: reduce_scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_all<collective::reduce_scatter>([]<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
    check_reduce_scatter<A>(comm, found, data, n);
  });
}

TEST_CASE("simulated, threads and processes: allreduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  check_all<collective::allreduce>([]<class A>(auto& comm, findings& found, const auto& data, std::size_t n) {
    check_allreduce<A>(comm, found, data, n);
  });
}

TEST_CASE("simulated, threads and processes: scan and exscan by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const int ranks : simulated_rank_counts) {
    const std::vector<std::size_t> lengths = simulated_vector_lengths(ranks);
    const contributions<unsigned, compose> data(ranks, lengths.back(), {});
    const prefixes<unsigned, compose> expected(data, ranks, lengths.back());
    on_all_by_every_algorithm<collective::scan>(ranks, [&]<class A>(auto& comm, findings& found) {
      for (const std::size_t n : lengths) check_scan<A>(comm, found, data, expected, n);
    });
    on_all_by_every_algorithm<collective::exscan>(ranks, [&]<class A>(auto& comm, findings& found) {
      for (const std::size_t n : lengths) check_exscan<A>(comm, found, data, expected, n);
    });
  }
}
