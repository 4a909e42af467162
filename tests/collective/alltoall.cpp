// SPDX-License-Identifier: BSL-1.0
#include <tutti/collective/alltoall.hpp>

#include "collective/every_movement.hpp"

using namespace conformance;

namespace {
constexpr auto verb = tutti::collective::alltoall;
}  // namespace

TEST_CASE_TEMPLATE_DEFINE("alltoall by every algorithm", Launcher, every_algorithm) {
  check_movements<verb, Launcher, float>(algorithms{});
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("alltoall of every type", Launcher, every_type) {
  check_movements_of_every_type<verb, Launcher>(list<tutti::circulant, tutti::bruck>{});
}
TEST_CASE_TEMPLATE_APPLY(every_type, launchers);

TEST_CASE_TEMPLATE_DEFINE("alltoall of vectors that are written past the caches", Launcher, every_long) {
  check_long_movements<verb, Launcher>();
}
TEST_CASE_TEMPLATE_APPLY(every_long, launchers);
