// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/allreduce.hpp>

#include <functional>

#include "collective/every_reduction.hpp"

using namespace conformance;

namespace {
constexpr auto verb = tutti::collective::allreduce;
}  // namespace

TEST_CASE_TEMPLATE_DEFINE("allreduce by every algorithm", Launcher, every_algorithm) {
  check_reductions<verb, Launcher>(algorithms{}, kind<int, std::plus<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce in rank order where the operation does not commute", Launcher, every_order) {
  check_reductions<verb, Launcher>(unless_sanitized<algorithms>{}, kind<matrix, std::multiplies<>>{});
}
TEST_CASE_TEMPLATE_APPLY(every_order, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce of every type with every operation", Launcher, every_kind) {
  for_each_kind(
      [](auto what) { check_reductions<verb, Launcher>(list<tutti::flat, tutti::halving_doubling>{}, what); });
}
TEST_CASE_TEMPLATE_APPLY(every_kind, launchers);

TEST_CASE_TEMPLATE_DEFINE("allreduce of vectors that are written past the caches", Launcher, every_long) {
  check_long_reductions<verb, Launcher, int>(representative_algorithms{});
  check_long_reductions<verb, Launcher, float>(list<tutti::flat, tutti::halving_doubling>{});
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
