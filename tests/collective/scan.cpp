// SPDX-License-Identifier: BSL-1.0

#include <complex>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "collective/reduction_checks.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using enum tutti::collective;

template <class Launcher, class T, class Op>
void check_all(kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    const prefixes<T, Op> expected(data, ranks, lengths.back());
    for_each_algorithm_for<scan, T, Op>(algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_scan<A>(comm, found, data, expected, n);
      });
    });
    for_each_algorithm_for<exscan, T, Op>(algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_exscan<A>(comm, found, data, expected, n);
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("scan and exscan by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher>(kind<float, std::plus<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("scan and exscan in rank order where the operation does not commute", Launcher, every_order) {
  check_all<Launcher>(kind<matrix, std::multiplies<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_order, launchers);

TEST_CASE("scan and exscan of buffers that do not fit together are refused") {
  tutti::run(2, [](auto& comm) {
    const std::vector<int> in(3);
    std::vector<int> out(2);
    CHECK_THROWS_WITH_AS(tutti::scan(comm, in, out, std::plus{}),
                         doctest::Contains("the output holds 2 elements, needs 3"), tutti::usage_error);
    std::vector<int> both(4);
    CHECK_THROWS_WITH_AS(tutti::exscan(comm, std::span(both).first(3), std::span(both).last(3), std::plus{}),
                         doctest::Contains("input and output overlap"), tutti::usage_error);
  });
}

TEST_CASE("below rank 0 there is the identity, however the sum is spelt") {
  tutti::run(2, [](auto& comm) {
    const auto first = [&]<class T>(T value, auto op) {
      std::vector<T> data(1, value);
      tutti::exscan(comm, data, op);
      return data[0];
    };
    CHECK(first(5.0F, std::plus{}) == (comm.rank() == 0 ? 0.0F : 5.0F));
    CHECK(first(5.0F, std::plus<float>{}) == (comm.rank() == 0 ? 0.0F : 5.0F));
    CHECK(first(5.0F, tutti::commutative(std::plus{})) == (comm.rank() == 0 ? 0.0F : 5.0F));
    CHECK(first(5.0F, tutti::reproducible_sum{}) == (comm.rank() == 0 ? 0.0F : 5.0F));
    CHECK(first(std::complex<float>(5, 5), std::plus{}) ==
          (comm.rank() == 0 ? std::complex<float>() : std::complex<float>(5, 5)));
    // What has no identity stays as it is.
    CHECK(first(5, [](int a, int b) { return a + b; }) == 5);
  });
}
