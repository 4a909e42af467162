// SPDX-License-Identifier: BSL-1.0

// The collectives that fold values, by every algorithm, on tcp.

#include <doctest/doctest.h>

#include "deadline.hpp"
#include "transport/tcp_conformance.hpp"

using conformance::by_every_algorithm;
using conformance::tcp_cases;

TEST_CASE("tcp: reduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::reduce();
}

TEST_CASE("tcp: reduce_scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::reduce_scatter();
}

TEST_CASE("tcp: allreduce by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::allreduce();
}

TEST_CASE("tcp: scan and exscan by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::scan_and_exscan();
}
