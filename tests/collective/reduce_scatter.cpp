// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/reduce_scatter.hpp>

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
constexpr auto verb = tutti::collective::reduce_scatter;

template <class Launcher, class Algorithms, class T, class Op>
void check_all(Algorithms chosen, kind<T, Op> what) {
  for (const int ranks : rank_counts) {
    const std::vector<std::size_t> lengths = vector_lengths<T>(ranks);
    const contributions<T, Op> data(ranks, lengths.back(), what.op);
    const auto run = [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        for (const std::size_t n : lengths) check_reduce_scatter<A>(comm, found, data, n);
      });
    };
    for_each_algorithm_for<verb, T, Op>(chosen, ranks, run);
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("reduce_scatter by every algorithm", Launcher, every_algorithm) {
  check_all<Launcher>(algorithms{}, kind<float, std::plus<>>{});
  if constexpr (!test::sanitized) check_all<Launcher>(representative_algorithms{}, kind<int, std::plus<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("reduce_scatter in rank order where the operation does not commute", Launcher, every_order) {
  check_all<Launcher>(algorithms{}, kind<matrix, std::multiplies<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_order, launchers);

TEST_CASE_TEMPLATE_DEFINE("reduce_scatter of every type with every operation", Launcher, every_kind) {
  for_each_kind([](auto what) { check_all<Launcher>(list<tutti::automatic, tutti::flat, tutti::circulant>{}, what); });
}
TEST_CASE_TEMPLATE_APPLY(every_kind, launchers);

TEST_CASE_TEMPLATE_DEFINE("reduce_scatter of vectors that are written past the caches", Launcher, every_long) {
  for (const int ranks : {2, 3}) {
    const contributions<float, std::plus<>> data(ranks, streaming_length<float>, {});
    for_each_algorithm_for<verb, float, std::plus<>>(representative_algorithms{}, ranks, [&]<class A>() {
      on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
        check_reduce_scatter<A>(comm, found, data, streaming_length<float>);
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
