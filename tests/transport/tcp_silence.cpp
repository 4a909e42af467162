// SPDX-License-Identifier: BSL-1.0

// Ranks over TCP that are stopped, not dead: their connections stay, and nothing comes. A heartbeat tells. Only
// children of this test are stopped; each is continued or killed in the end.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = tcp_communicator;

void sleep_milliseconds(unsigned span) {
  timespec time{};
  time.tv_sec = span / 1000;
  time.tv_nsec = static_cast<long>(span % 1000) * 1'000'000;
  nanosleep(&time, nullptr);
}

/// Stops a child of this process, and returns when it is.
void stop(pid_t child) {
  kill(child, SIGSTOP);
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED) != 0) std::abort();
}

void add(comm_type& comm) {
  std::vector<float> values(100, 1.0f);
  tutti::allreduce(comm, values, std::plus{});
}
[[noreturn]] void work_for_ever(comm_type& comm) {
  for (;;) add(comm);
}

}  // namespace

TEST_CASE("E a rank that is stopped is named by all others after the heartbeat, and by itself once it goes on") {
  const alarm_limit limit(60);
  const tcp_job job{.heartbeat = 400ms};
  for (const int victim : {0, 1, 2}) {
    CAPTURE(victim);
    const shared_with_children<std::atomic<int>> working;
    const shared_with_children<std::atomic<int>> thrown;
    std::int64_t stopped = 0;
    const auto ended = outcomes_on_processes(
        3, job,
        [&](comm_type& comm, rank_report&) {
          tutti::barrier(comm);
          working->fetch_add(1);
          try {
            work_for_ever(comm);
          } catch (...) {
            thrown->fetch_add(1);
            throw;
          }
        },
        [&](const std::vector<pid_t>& pids) {
          while (working->load() < 3) sleep_milliseconds(1);
          stopped = monotonic_now();
          stop(pids[static_cast<std::size_t>(victim)]);
          while (thrown->load() < 2) sleep_milliseconds(1);
          kill(pids[static_cast<std::size_t>(victim)], SIGCONT);
        });
    const outcome expected{"peer_failed",
                           "rank " + std::to_string(victim) +
                               " has been silent for 400 ms: it is stopped or cannot be reached: peer failed",
                           victim};
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      CHECK(ended.on(rank) == expected);
      if (rank == victim) continue;
      const double after = 1e-6 * static_cast<double>(ended.when[static_cast<std::size_t>(rank)] - stopped);
      std::printf("rank %d was stopped: rank %d throws after %.0f ms\n", victim, rank, after);
      CHECK(after > 200);  // not before three quarters of it, and the resolution of the clocks
      CHECK(after < 4'000);
    }
  }
}

TEST_CASE("E signs of life go on while the ranks compute, and who is stopped for a short while is forgiven") {
  const alarm_limit limit(60);
  const tcp_job job{.heartbeat = 600ms};
  const shared_with_children<std::atomic<int>> working;
  const auto ended = outcomes_on_processes(
      3, job,
      [&](comm_type& comm, rank_report&) {
        tutti::barrier(comm);
        working->fetch_add(1);
        const auto begin = std::chrono::steady_clock::now();
        // Rank 1 computes for longer than the heartbeat; rank 0 waits for it, and rank 2 has left.
        if (comm.rank() == 1)
          while (std::chrono::steady_clock::now() - begin < 1300ms) std::this_thread::yield();
        if (comm.rank() != 2) {
          std::vector<int> value(1);
          tutti::broadcast(comm, value, 1);
        } else {
          std::vector<int> value(1);
          tutti::broadcast(comm, value, 1);
        }
      },
      [&](const std::vector<pid_t>& pids) {
        while (working->load() < 3) sleep_milliseconds(1);
        stop(pids[1]);
        sleep_milliseconds(100);
        kill(pids[1], SIGCONT);
      });
  for (int rank = 0; rank < 3; ++rank) CHECK(ended.on(rank) == outcome{});
}

TEST_CASE("A8 abort needs no help: all other ranks are stopped") {
  const alarm_limit limit(60);
  for (const int aborts : {0, 1}) {
    CAPTURE(aborts);
    const shared_with_children<std::atomic<int>> working;
    const shared_with_children<std::atomic<bool>> go;
    const shared_with_children<std::atomic<bool>> thrown;
    const shared_with_children<std::atomic<std::int64_t>> took;
    const auto ended = outcomes_on_processes(
        3, {},
        [&](comm_type& comm, rank_report&) {
          tutti::barrier(comm);
          working->fetch_add(1);
          if (comm.rank() != aborts) work_for_ever(comm);
          std::int64_t begin = 0;
          std::thread thread([&] {
            while (!go->load()) std::this_thread::yield();
            begin = monotonic_now();
            comm.abort("no more shoes");
          });
          const outcome o = outcome_of([&] { work_for_ever(comm); });
          thread.join();
          took->store(monotonic_now() - begin);
          thrown->store(true);
          add(comm);
        },
        [&](const std::vector<pid_t>& pids) {
          while (working->load() < 3) sleep_milliseconds(1);
          for (int rank = 0; rank < 3; ++rank)
            if (rank != aborts) stop(pids[static_cast<std::size_t>(rank)]);
          go->store(true);
          while (!thrown->load()) sleep_milliseconds(1);
          for (const pid_t pid : pids) kill(pid, SIGCONT);
        });
    const std::string text = "rank " + std::to_string(aborts) + " aborted: no more shoes: peer failed";
    for (int rank = 0; rank < 3; ++rank) CHECK(ended.on(rank) == outcome{"peer_failed", text, aborts});
    std::printf("rank %d aborts while the others are stopped: ended after %.1f ms\n", aborts,
                1e-6 * static_cast<double>(took->load()));
    CHECK(took->load() < 3'000'000'000);  // and not after a heartbeat
  }
}
