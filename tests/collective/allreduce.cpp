// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/allreduce.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "collective/reduction_checks.hpp"

namespace {

using namespace conformance;
constexpr auto verb = tutti::collective::allreduce;

template <class Launcher, class Algorithms, class T, class Op>
void check_all(Algorithms chosen, kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    const auto run = [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_allreduce<A>(comm, found, data, n);
      });
    };
    for_each_algorithm_for<verb, T, Op>(chosen, ranks, run);
  }
}

template <class Launcher, class T, class Algorithms>
void check_long(Algorithms chosen) {
  for (const int ranks : {2, 3}) {
    const contributions<T, std::plus<>> data(ranks, streaming_length<T>, {});
    for_each_algorithm_for<verb, T, std::plus<>>(chosen, ranks, [&]<class A>() {
      on_ranks<Launcher>(
          ranks, [&](auto& comm, findings& found) { check_allreduce<A>(comm, found, data, streaming_length<T>); });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("allreduce by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher>(algorithms{}, kind<int, std::plus<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce in rank order where the operation does not commute", Launcher, every_order) {
  check_all<Launcher>(unless_sanitized<algorithms>{}, kind<matrix, std::multiplies<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_order, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce of every type with every operation", Launcher, every_kind) {
  for_each_kind([](auto what) { check_all<Launcher>(list<tutti::flat, tutti::halving_doubling>{}, what); });
}
TEST_CASE_TEMPLATE_APPLY(every_kind, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce of vectors that are written past the caches", Launcher, every_long) {
  check_long<Launcher, int>(representative_algorithms{});
  check_long<Launcher, float>(list<tutti::flat, tutti::halving_doubling>{});
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
