// SPDX-License-Identifier: BSL-1.0

// Ranks of a host of several that are missing, fail or die while those of the host meet, or after they have left: all
// ranks name the same one, in the numbers of all.

#define TUTTI_FAULT_POINTS

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <time.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/hierarchical_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = hierarchical_comm;

void check_all(const std::vector<outcome>& of, const outcome& expected) {
  for (std::size_t rank = 0; rank < of.size(); ++rank) {
    CAPTURE(rank);
    CHECK(of[rank] == expected);
  }
}
void sleep_milliseconds(unsigned span) {
  timespec time{};
  time.tv_nsec = static_cast<long>(span) * 1'000'000;
  nanosleep(&time, nullptr);
}

/// How ranks that are processes end, of which rank `victim` does that at the first hit of that fault point.
process_outcomes outcomes_of_meeting(const std::vector<int>& where, int victim, const char* point,
                                     tutti::fault::action what) {
  const auto ranks = static_cast<int>(where.size());
  const shared_with_children<rank_report> reports(ranks);
  std::vector<std::unique_ptr<child_process>> processes;
  {
    tutti::detail::tcp_loopback all(ranks);
    const auto options = options_on_hosts(all, where, 10s);
    const tutti::detail::descriptor_owner listener(options[0].listener);
    for (int rank = 0; rank < ranks; ++rank)
      processes.push_back(std::make_unique<child_process>([&, rank] {
        if (rank != 0 && listener) close(listener.get());
        if (rank == victim) {
          tutti::fault::plan p;
          p.name = point;
          p.what = what;
          tutti::fault::arm(p);
        }
        reports[rank].write(outcome_of_hierarchical(options[static_cast<std::size_t>(rank)], [](comm_type& comm) {
          tutti::barrier<tutti::dissemination>(comm);
        }));
        return 0;
      }));
  }
  for (auto& each : processes) each->end();
  return collected(reports, ranks);
}

}  // namespace

TEST_CASE("a rank that does not come to the meeting of its host is named by all others, as late") {
  const deadline limit(60s);
  for (const int missing : {1, 2, 3}) {
    CAPTURE(missing);
    tutti::detail::tcp_loopback all(4);
    auto options = options_on_hosts(all, {1, 0, 0, 0}, 10s);
    for (tutti::tcp_options& each : options) each.start_timeout = 1'200ms;
    std::vector<outcome> of(4);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] {
        const tutti::tcp_options& mine = options[static_cast<std::size_t>(rank)];
        of[static_cast<std::size_t>(rank)] =
            rank != missing ? outcome_of_hierarchical(mine, [](comm_type&) {}) : outcome_of([&] {
              tutti::tcp::group_type met(mine);
              for (;;) {
                met.check();
                std::this_thread::yield();
              }
            });
      });
    for (std::thread& each : threads) each.join();
    CAPTURE(of[0].text);
    CHECK(of[0].kind == "timed_out");
    CHECK(of[0].peer == missing);
    CHECK(contains(of[0].text, "ranks that share a host cannot meet: "));
    CHECK(contains(of[0].text, " (by their numbers on the host of ranks 1-3)"));
    check_all(of, of[0]);
  }
}

TEST_CASE("a rank that dies in the meeting of its host is named by all others") {
  const alarm_limit limit(60);
  // Rank 1 waits for the others there.
  struct moment {
    int victim;
    const char* point;
  };
  for (const moment& m : {moment{1, "rendezvous.host.welcome"}, moment{1, "rendezvous.host.handed_over"},
                          moment{1, "rendezvous.host.complete"}, moment{2, "rendezvous.guest.greeted"},
                          moment{3, "rendezvous.guest.given"}, moment{2, "rendezvous.guest.told"}}) {
    CAPTURE(m.point);
    const auto ended = outcomes_of_meeting({1, 0, 0, 0}, m.victim, m.point, tutti::fault::action::kill);
    for (int rank = 0; rank < 4; ++rank) {
      CAPTURE(rank);
      if (rank == m.victim)
        CHECK(ended.on(rank).kind == "died");
      else
        CHECK(ended.on(rank) == outcome{"peer_failed",
                                        "rank " + std::to_string(m.victim) + " has ended without a word: peer failed",
                                        m.victim});
    }
  }
}

TEST_CASE("what keeps a rank from the meeting of its host is thrown by all, and nobody else is blamed") {
  const alarm_limit limit(60);
  for (const int victim : {1, 3}) {
    CAPTURE(victim);
    const auto ended = outcomes_of_meeting({1, 0, 0, 0}, victim, "group.attach", tutti::fault::action::raise);
    CAPTURE(ended.on(0).text);
    CHECK(ended.on(0).kind == "resource_error");
    CHECK(contains(ended.on(0).text, "ranks that share a host cannot meet: fault point group.attach, hit 1"));
    check_all(ended.of, ended.on(0));
  }
}

TEST_CASE("a rank that has left and is killed while others of its host still talk is named by all") {
  const alarm_limit limit(60);
  constexpr int victim = 3;
  const shared_with_children<std::atomic<int>> passed;
  const shared_with_children<std::atomic<bool>> dead;
  std::int64_t killed = 0;
  const auto ended = outcomes_of_hosts_processes(
      {1, 0, 0, 0},
      [&](comm_type& comm, rank_report&) {
        tutti::barrier<tutti::dissemination>(comm);
        passed->fetch_add(1);
        if (comm.rank() == victim) return;
        while (!dead->load()) sleep_milliseconds(1);
        // Each waits for another: two on the host of the victim, one elsewhere.
        std::vector<int> values(1);
        tutti::recv(comm, comm.rank() == 1 ? 2 : 1, values);
      },
      [&](const std::vector<pid_t>& pids) {
        while (passed->load() < 4) sleep_milliseconds(1);
        sleep_milliseconds(100);  // it has said goodbye by then
        kill(pids[victim], SIGKILL);
        await_zombie(pids[victim]);
        killed = monotonic_now();
        dead->store(true);
      });
  CHECK(ended.on(victim).kind == "died");
  for (const int rank : {0, 1, 2}) {
    CAPTURE(rank);
    CAPTURE(ended.on(rank).text);
    CHECK(ended.on(rank).kind == "peer_failed");
    CHECK(ended.on(rank).peer == victim);
    CHECK(ended.on(rank) == ended.on(0));
    CHECK(ended.when[static_cast<std::size_t>(rank)] - killed < 3'000'000'000);  // far less than a heartbeat
  }
}

TEST_CASE("in a gather, which only the root waits in, a rank leaves without coming, on the host of the root or not") {
  const deadline limit(30s);
  for (const int late : {1, 2}) {
    CAPTURE(late);
    std::atomic<int> gathered{0};
    const auto of = outcomes_on_hosts({0, 1, 0, 1}, [&](comm_type& comm) {
      const std::vector<int> mine(10, comm.rank());
      std::vector<int> all(comm.rank() == 0 ? 40 : 0);
      if (comm.rank() == late) {
        while (gathered.load() < 2) std::this_thread::yield();
        return;
      }
      tutti::gather<tutti::flat>(comm, mine, all, 0);
      ++gathered;
    });
    CAPTURE(of[0].text);
    CHECK(of[0].kind == "peer_failed");
    CHECK(of[0].peer == late);
    CHECK(
        contains(of[0].text, "rank " + std::to_string(late) + " left while rank 0 waited for it in round 0 of gather"));
    check_all(of, of[0]);
  }
}
