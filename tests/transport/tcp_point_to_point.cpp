// SPDX-License-Identifier: BSL-1.0

// send, recv and sendrecv over TCP.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <cstddef>

#include "collective/messages.hpp"
#include "deadline.hpp"
#include "transport/tcp_job.hpp"

using namespace test;
using namespace std::chrono_literals;

TEST_CASE("messages over TCP") {
  const deadline limit(60s);
  using checks = message_checks<tcp_communicator>;
  checks{[](int ranks, const checks::work& f) { return outcomes_on_threads(ranks, f); }}.everything();
}

TEST_CASE("A1 a rank over TCP that is killed while others send to it and receive from it") {
  const alarm_limit limit(60);  // without a thread, since ranks are forked
  for (const std::size_t count : {1U, 1000000U}) {
    const auto killed = outcomes_on_processes(
        3, {}, [=](tcp_communicator& comm, rank_report&) { exchange_with_killed(comm, count, 10000000); });
    check_killed(killed);
  }
}
