// SPDX-License-Identifier: BSL-1.0

// send, recv and sendrecv among ranks of which some share a host: within it, between hosts, and both.

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collective/messages.hpp"
#include "deadline.hpp"
#include "transport/hierarchical_job.hpp"

using namespace test;
using namespace std::chrono_literals;
using comm_type = hierarchical_comm;

TEST_CASE("messages on one host, and on two whose ranks are not neighbours") {
  const deadline limit(120s);
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0, 0, 0}, std::vector<int>{0, 1, 0, 1, 1}}) {
    CAPTURE(hosts[1]);
    using checks = message_checks<comm_type>;
    checks{[&](int ranks, const checks::work& f) {
      return outcomes_on_hosts({hosts.begin(), hosts.begin() + ranks}, f);
    }}.everything();
  }
}

TEST_CASE("who waits for a message of a rank that has left the communicator is told so, on its host and on another") {
  const deadline limit(30s);
  for (const std::vector<int>& hosts : {std::vector<int>{1, 0, 0}, std::vector<int>{0, 1, 0}}) {
    CAPTURE(hosts[1]);
    std::vector<outcome> inside(3);
    const auto of = outcomes_on_hosts(hosts, [&](comm_type& comm) {
      const int me = comm.rank();
      std::optional<comm_type> part = comm.split(std::optional(0), -me);  // 2, 1, 0
      std::vector<int> values(1);
      if (me == 2) tutti::send(*part, 1, std::vector{5});
      if (me == 2) part.reset();
      if (me == 1) tutti::recv(*part, 0, values);
      if (me == 1 && values[0] != 5) throw std::runtime_error("what was sent before it left");
      tutti::barrier<tutti::dissemination>(comm);
      if (part) {
        inside[static_cast<std::size_t>(me)] = outcome_of([&] {
          if (me == 1) tutti::recv(*part, 0, values);
          tutti::barrier<tutti::dissemination>(*part);
        });
      }
      tutti::barrier<tutti::dissemination>(comm);
    });
    for (const outcome& each : of) CHECK(each == outcome{});
    CAPTURE(inside[0].text);
    CHECK(inside[0].kind == "peer_failed");
    CHECK(inside[0].peer == 0);
    CHECK(contains(inside[0].text, "rank 0 left while rank "));
    CHECK(contains(inside[0].text, " (ranks of a communicator of ranks 2, 1, 0)"));
    CHECK(inside[1] == inside[0]);
  }
}
