// SPDX-License-Identifier: BSL-1.0

// A1, A2, A3: ranks that no run_processes looks after, since a launcher has started them, notice by themselves that one
// of them has died, while they meet and afterwards.

#include "transport/processes_sweep.hpp"

#include <chrono>
#include <map>
#include <string>
#include <string_view>

using namespace test;

TEST_CASE("A1 A2 a rank that is killed is named where nobody but the ranks themselves look after them") {
  const alarm_limit limit(sanitized ? 300 : 120);
  const int before = open_descriptors();
  for (const int ranks : {2, 3, 5, 8}) {
    sweep_result result;
    fault::disarm();
    fault::share_with_children();
    const auto healthy = outcomes_of_launched(ranks, new_job(), patience, work);
    for (const outcome& o : healthy.of) REQUIRE(o == outcome{});
    std::map<std::string, std::uint64_t> hits;
    fault::for_each_name([&](std::string_view name, std::uint64_t n) {
      // Before the ranks know of each other nobody can tell one that has died from one that is still to come.
      if (name.starts_with("segment.") || name.starts_with("run.create") || name.starts_with("group.create")) return;
      if (name.starts_with("group.table")) return;
      if (name.starts_with("rendezvous.")) return;
      hits[std::string(name)] = n;
    });
    for (const fault::plan& plan : plans_for(ranks, action::kill, hits)) {
      const std::string text = text_of(plan, ranks);
      CAPTURE(text);
      fault::arm(plan);
      fault::share_with_children();
      const auto ended = outcomes_of_launched(ranks, new_job(), patience, work);
      if (!fault::fired()) continue;
      ++result.fired;
      check_survivors(ended, ranks, plan.rank, result);
    }
    CHECK(result.strict >= (sweep_all() ? 25 : 2));
    result.tell(std::to_string(ranks) + " ranks by themselves");
  }
  fault::share_no_more();
  fault::disarm();
  CHECK(open_descriptors() == before);
}

TEST_CASE("A3 a rank that dies while the ranks meet ends the meeting for all") {
  const alarm_limit limit(sanitized ? 300 : 120);
  constexpr int ranks = 3;
  // Where the limit has to pass, and where all is known at once.
  const std::map<std::string, bool> points{{"run.create", true},
                                           {"segment.opened", true},
                                           {"group.create", true},
                                           {"rendezvous.host.bind", true},
                                           {"rendezvous.host.bound", true},
                                           {"rendezvous.guest.connect", true},
                                           {"rendezvous.guest.connected", true},
                                           {"rendezvous.host.welcome", true},
                                           {"rendezvous.host.welcomed", true},
                                           {"rendezvous.host.hand_over", false},
                                           {"rendezvous.host.handed_over", false},
                                           {"rendezvous.host.complete", false},
                                           {"rendezvous.guest.greeted", true},
                                           {"rendezvous.guest.welcomed", false},
                                           {"rendezvous.guest.given", false},
                                           {"segment.attach", false},
                                           {"segment.attached", false},
                                           {"group.attach", false},
                                           {"group.attached", false},
                                           {"rendezvous.guest.attached", false},
                                           {"rendezvous.guest.told", false}};
  for (const auto& point : points) {
    const std::string& name = point.first;
    const bool late = point.second;
    const bool of_host =
        name.find("guest") == name.npos && !name.starts_with("segment.attach") && !name.starts_with("group.attach");
    const int victim = of_host ? 0 : 1;
    CAPTURE(name);
    fault::arm({.name = name, .nth = 1, .what = action::kill, .rank = victim});
    fault::share_with_children();
    const auto span = late ? std::chrono::milliseconds(300) : std::chrono::milliseconds(patience);
    const auto ended = outcomes_of_launched(ranks, new_job(), span, work);
    CHECK(fault::fired());
    for (int rank = 0; rank < ranks; ++rank) {
      const outcome& o = ended.on(rank);
      CAPTURE(rank);
      CAPTURE(o.text);
      if (rank == victim) {
        CHECK(o.kind == "died");
      } else if (late) {
        CHECK((o.kind == "timed_out" || o.kind == "peer_failed"));
        CHECK(contains(o.text, "rank " + std::to_string(victim)));
      } else {
        CHECK(o.kind == "peer_failed");
        CHECK(o.peer == victim);
      }
    }
  }
  fault::share_no_more();
  fault::disarm();
}
