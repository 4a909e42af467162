// SPDX-License-Identifier: BSL-1.0

// A rank's function throws while a collective over TCP is pending.

#include "communicator/unwinding.hpp"
#include "transport/tcp_job.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

using namespace test;

namespace {

using comm_type = tcp_communicator;

template <class F>
process_outcomes outcomes_of(int ranks, F&& work) {
  return outcomes_on_processes(ranks, {}, [&](comm_type& comm, rank_report& mine) { work(comm, mine); });
}

}  // namespace

TEST_CASE("an exception that passes a pending collective over TCP is what all hear of, and what run_tcp throws") {
  const alarm_limit limit(sanitized ? 400 : 100);
  check_all_unwindings(100, [](const unwinding& u) {
    return outcomes_of(u.ranks, [&u](comm_type& comm, rank_report& mine) { throw_past_pending(comm, mine, u); });
  });
}

TEST_CASE("where the ranks over TCP are threads run_tcp rethrows what has passed a pending collective") {
  const alarm_limit limit(60);
  for (const int bad : {0, 2}) {
    CHECK(outcome_of([&] {
            tutti::run_tcp(3, [&](comm_type& comm) {
              rank_report mine;
              throw_past_pending(comm, mine, {3, bad, 20'000, pending_on::duplicate, false, false, 3});
            });
          }) == outcome{"other", "no shoes", -1});
  }
}

TEST_CASE("a rank over TCP that catches what has passed a pending collective fails its communicator when it goes on") {
  const alarm_limit limit(60);
  check_all_caught([](int ranks, auto&& work) { return outcomes_of(ranks, work); });
}
