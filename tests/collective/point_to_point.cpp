// SPDX-License-Identifier: BSL-1.0

// send, recv and sendrecv between ranks that are threads, processes or simulated.

#include <tutti/tutti.hpp>

#include "collective/messages.hpp"
#include "deadline.hpp"
#include "transport/processes_run.hpp"
#include "transport/simulated.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

using namespace test;

using namespace std::chrono_literals;

TEST_CASE("messages between threads") {
  const deadline limit(60s);
  using checks = message_checks<tutti::communicator<tutti::threads>>;
  checks{[](int ranks, const checks::work& f) { return outcomes_of_run(ranks, f).of; }}.everything();
}

TEST_CASE("messages between processes") {
  const deadline limit(60s);
  using checks = message_checks<process_communicator>;
  checks{[](int ranks, const checks::work& f) {
    return outcomes_of_processes(ranks, [&](process_communicator& comm, rank_report&) { f(comm); }).of;
  }}.everything();

  for (const std::size_t count : {1U, 100000U}) {
    const auto killed = outcomes_of_processes(
        3, [=](process_communicator& comm, rank_report&) { exchange_with_killed(comm, count, 1000000); });
    check_killed(killed);
  }
}

TEST_CASE("messages between simulated ranks") {
  const deadline limit(60s);
  using checks = message_checks<simulated_communicator>;
  checks{[](int ranks, const checks::work& f) { return outcomes_of_simulated(ranks, {}, f, true).of; }}.everything();

  // Where nobody goes on, it says at once who waits for whom.
  const auto stuck = outcomes_of_simulated(3, {}, [](simulated_communicator& comm) {
    std::array<int, 1> data{};
    tutti::recv(comm, (comm.rank() + 1) % 3, data);
  });
  CHECK(stuck.of[0].kind == "timed_out");
  CHECK(contains(stuck.of[0].text,
                 "deadlock: nothing is under way, and rank 0 waits for rank 1 in recv of 1 x int (4 bytes each) from "
                 "rank 1, message 1 at "));
  CHECK(contains(stuck.of[0].text, "; rank 2 waits for rank 0 in recv of "));
}
