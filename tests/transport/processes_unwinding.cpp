// SPDX-License-Identifier: BSL-1.0

// A rank's function throws while a collective of processes is pending.

#include "communicator/unwinding.hpp"
#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <unistd.h>
#include <chrono>
#include <string>

using namespace test;

namespace {

using comm_type = process_communicator;

process_outcomes outcomes_of_unwinding(const unwinding& u) {
  const process_outcomes ended =
      outcomes_of_processes(u.ranks, [&u](comm_type& comm, rank_report& mine) { throw_past_pending(comm, mine, u); });
  CHECK(ended.run.kind == "peer_failed");
  CHECK(ended.run.peer == u.bad);
  CHECK(contains(ended.run.text, "rank " + std::to_string(u.bad) + " failed: no shoes"));
  return ended;
}

}  // namespace

TEST_CASE("an exception that passes a pending collective is what all processes hear of, and what run_processes tells") {
  const alarm_limit limit(sanitized ? 400 : 100);
  check_all_unwindings(100, outcomes_of_unwinding);
}

TEST_CASE(
    "the same where messages are not read from the memory of other processes, and where a launcher started them") {
  const alarm_limit limit(sanitized ? 400 : 100);
  tutti::detail::delivery_choice::forced = tutti::detail::delivery::streamed;
  int number = 0;
  check_all_unwindings(100, [&](const unwinding& u) {
    if (++number % 4 != 0) return outcomes_of_unwinding(u);
    const std::string job = "unwinding " + std::to_string(getpid()) + " " + std::to_string(number);
    return outcomes_of_launched(u.ranks, job, std::chrono::seconds(20),
                                [&u](comm_type& comm, rank_report& mine) { throw_past_pending(comm, mine, u); });
  });
  tutti::detail::delivery_choice::forced.reset();
}

TEST_CASE("a process that catches what has passed a pending collective fails its communicator when it goes on") {
  const alarm_limit limit(60);
  check_all_caught([](int ranks, auto&& work) { return outcomes_of_processes(ranks, work); });
}
