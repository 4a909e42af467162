// SPDX-License-Identifier: BSL-1.0

// Ranks over TCP are killed at any moment: all others name the same dead one, and soon. Nobody but the ranks tells
// them: each is a process of its own.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_job.hpp"

namespace {

using namespace test;
using comm_type = tcp_communicator;

/// Small messages and large ones, with lanes of their own and without.
void step(comm_type& comm, std::vector<float>& small, std::vector<float>& large) {
  tutti::allreduce(comm, small, std::plus{});
  auto pending = tutti::iallreduce(comm, small, std::plus{});
  tutti::allreduce(comm, large, std::plus{});
  pending.wait();
}
[[noreturn]] void work_for_ever(comm_type& comm, rank_report& mine) {
  std::vector<float> small(16);
  std::vector<float> large(60'000);
  for (;;) {
    step(comm, small, large);
    mine.steps.fetch_add(1);
  }
}

/// How long it took, in milliseconds, from the death to the throw of each survivor.
struct distribution {
  std::vector<double> times;
  void add(std::int64_t nanoseconds) { times.push_back(1e-6 * static_cast<double>(nanoseconds)); }
  void tell(const std::string& what) {
    std::sort(times.begin(), times.end());
    const auto at = [&](double part) {
      return times[std::min(times.size() - 1, static_cast<std::size_t>(part * static_cast<double>(times.size())))];
    };
    std::printf("%s: %zu survivors, milliseconds: median %.2f, p90 %.2f, p99 %.2f, most %.2f\n", what.c_str(),
                times.size(), at(0.5), at(0.9), at(0.99), times.back());
    CHECK(times.back() < 3000);  // nobody waited for a heartbeat, which is longer
  }
};

void sleep_microseconds(unsigned span) {
  timespec time{};
  time.tv_sec = span / 1'000'000;
  time.tv_nsec = static_cast<long>(span % 1'000'000) * 1000;
  nanosleep(&time, nullptr);
}

int sockets_of_this_process() {
  int count = 0;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    struct stat status {};
    count += fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? 1 : 0;
  }
  return count;
}

void check_survivors(const process_outcomes& ended, int ranks, int victim) {
  const outcome expected{"peer_failed", "rank " + std::to_string(victim) + " has ended without a word: peer failed",
                         victim};
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    if (rank == victim) {
      CHECK(ended.on(rank).kind == "died");
    } else {
      CHECK(ended.on(rank) == expected);
    }
  }
}

}  // namespace

TEST_CASE("A1 A4 a rank that is killed at any moment is named by all others, adjacent or not, and soon") {
  const alarm_limit limit(120);
  std::mt19937 random(5);
  for (const int ranks : {2, 3, 5, 8}) {
    distribution spread;
    for (int repetition = 0; repetition < (sanitized ? 3 : 8); ++repetition) {
      const int victim = repetition % ranks;
      CAPTURE(ranks);
      CAPTURE(victim);
      const unsigned moment = static_cast<unsigned>(random() % 20'000);
      const shared_with_children<std::atomic<int>> working;
      std::int64_t death = 0;
      const auto ended = outcomes_on_processes(
          ranks, {},
          [&](comm_type& comm, rank_report& mine) {
            tutti::barrier(comm);
            working->fetch_add(1);
            work_for_ever(comm, mine);
          },
          [&](const std::vector<pid_t>& pids) {
            while (working->load() < ranks) sleep_microseconds(100);
            sleep_microseconds(moment);
            death = monotonic_now();
            kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
          });
      check_survivors(ended, ranks, victim);
      for (int rank = 0; rank < ranks; ++rank)
        if (rank != victim) spread.add(ended.when[static_cast<std::size_t>(rank)] - death);
    }
    spread.tell(std::to_string(ranks) + " ranks");
  }
}

TEST_CASE("A3 a rank that ends before it has spoken to anybody is named by those who wait to connect to it") {
  const alarm_limit limit(60);
  for (const int victim : {0, 1, 2}) {
    CAPTURE(victim);
    const auto ended = outcomes_on_processes(3, {}, [&](comm_type& comm, rank_report& mine) {
      if (comm.rank() == victim) _exit(0);
      work_for_ever(comm, mine);
    });
    check_survivors(ended, 3, victim);
  }
}

TEST_CASE("A1 a receiver dies in the middle of a large message, or its sender does") {
  const alarm_limit limit(60);
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    const auto ended = outcomes_on_processes(2, {}, [&](comm_type& comm, rank_report&) {
      std::vector<float> values(4'000'000);
      tutti::barrier(comm);
      auto pending = tutti::iallreduce(comm, values, std::plus{});
      for (int look = 0; look < 20; ++look) static_cast<void>(pending.test());
      if (comm.rank() == victim) raise(SIGKILL);  // in the middle, or nearly
      pending.wait();
    });
    check_survivors(ended, 2, victim);
  }
}

TEST_CASE("where several die at once, all that are left name the same one of them") {
  const alarm_limit limit(60);
  for (int repetition = 0; repetition < (sanitized ? 2 : 6); ++repetition) {
    const auto ended = outcomes_on_processes(5, {}, [&](comm_type& comm, rank_report& mine) {
      tutti::barrier(comm);
      if (comm.rank() == 1 || comm.rank() == 3) raise(SIGKILL);
      work_for_ever(comm, mine);
    });
    const outcome first = ended.on(0);
    CHECK(first.kind == "peer_failed");
    CHECK((first.peer == 1 || first.peer == 3));
    CHECK(ended.on(2) == first);
    CHECK(ended.on(4) == first);
  }
}

TEST_CASE("however a rank ends in its function, all others name it") {
  const alarm_limit limit(60);
  struct way {
    void (*end)();
    const char* text;
  };
  for (const way& w :
       {way{[] { throw std::runtime_error("no shoes"); }, "failed: no shoes"},
        way{[] { _exit(0); }, "has ended without a word"}, way{[] { std::exit(3); }, "has ended without a word"},
        way{[] { std::abort(); }, "has ended without a word"},
        way{[] { raise(SIGTERM); }, "has ended without a word"}}) {
    CAPTURE(w.text);
    const auto ended = outcomes_on_processes(3, {}, [&](comm_type& comm, rank_report& mine) {
      tutti::barrier(comm);
      if (comm.rank() == 1) w.end();
      work_for_ever(comm, mine);
    });
    for (const int rank : {0, 2}) {
      CHECK(ended.on(rank).kind == "peer_failed");
      CHECK(ended.on(rank).peer == 1);
      CHECK(contains(ended.on(rank).text, std::string("rank 1 ") + w.text));
    }
  }
}

TEST_CASE("a rank that has left and is then killed has done its part") {
  const alarm_limit limit(60);
  const shared_with_children<std::atomic<bool>> dead;
  const shared_with_children<std::atomic<int>> passed;
  const auto ended = outcomes_on_processes(
      3, {},
      [&](comm_type& comm, rank_report&) {
        tutti::barrier(comm);
        passed->fetch_add(1);
        if (comm.rank() == 2) return;
        while (!dead->load()) sleep_microseconds(1000);
      },
      [&](const std::vector<pid_t>& pids) {
        while (passed->load() < 3) sleep_microseconds(1000);
        sleep_microseconds(100'000);  // it has said goodbye by then, or else it has failed
        kill(pids[2], SIGKILL);
        sleep_microseconds(20'000);
        dead->store(true);
      });
  CHECK(ended.on(2).kind == "died");
  CHECK(ended.on(0) == outcome{});
  CHECK(ended.on(1) == outcome{});
}

TEST_CASE("A1 a rank that is killed is named at once, though a process that it has forked lives on") {
  const alarm_limit limit(60);
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    const shared_with_children<std::atomic<int>> working;
    const shared_with_children<std::atomic<bool>> over;
    const shared_with_children<std::atomic<int>> left_open;
    const auto ended = outcomes_on_processes(
        3, {.heartbeat = std::chrono::seconds(20)},
        [&](comm_type& comm, rank_report& mine) {
          std::vector<float> large(60'000);
          tutti::allreduce<tutti::circulant>(comm, large, std::plus{});
          if (comm.rank() == victim) {
            const pid_t loader = fork();
            if (loader == 0) {
              alarm(50);
              left_open->store(sockets_of_this_process());
              working->fetch_add(1);
              while (!over->load()) sleep_microseconds(1000);
              _exit(0);
            }
          }
          tutti::barrier(comm);
          working->fetch_add(1);
          work_for_ever(comm, mine);
        },
        [&](const std::vector<pid_t>& pids) {
          while (working->load() < 4) sleep_microseconds(100);
          kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
        });
    over->store(true);
    check_survivors(ended, 3, victim);
    CHECK(left_open->load() == 0);
  }
}

TEST_CASE("what a rank has forked is no rank, and what becomes of it is nobody's business") {
  const alarm_limit limit(60);
  const auto ended = outcomes_on_processes(2, {}, [&](comm_type& comm, rank_report&) {
    tutti::barrier(comm);
    const child_process child([&] {
      const outcome o = outcome_of([&] { tutti::barrier(comm); });
      return o.kind == "usage_error" && contains(o.text, "made by fork() in rank") ? 0 : 1;
    });
    if (const_cast<child_process&>(child).result() != 0) throw std::runtime_error("the child takes itself for a rank");
    // One that returns from the function of its rank ends that without a word to anybody.
    const pid_t pid = fork();
    if (pid == 0) throw std::runtime_error("the child fails");
    if (!WIFEXITED(await_end(pid))) throw std::runtime_error("the child crashed");
    tutti::barrier(comm);
  });
  CHECK(ended.on(0) == outcome{});
  CHECK(ended.on(1) == outcome{});
}
