// SPDX-License-Identifier: BSL-1.0

// The collectives that move values, by every algorithm, on tcp.

#include <doctest/doctest.h>

#include "deadline.hpp"
#include "transport/tcp_conformance.hpp"

using conformance::by_every_algorithm;
using conformance::tcp_cases;

TEST_CASE("tcp: broadcast by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::broadcast();
}

TEST_CASE("tcp: scatter by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::scatter();
}

TEST_CASE("tcp: gather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::gather();
}

TEST_CASE("tcp: allgather by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::allgather();
}

TEST_CASE("tcp: alltoall by every algorithm") {
  const test::deadline limit(std::chrono::seconds(60));
  by_every_algorithm<tcp_cases>::alltoall();
}
