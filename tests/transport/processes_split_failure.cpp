// SPDX-License-Identifier: BSL-1.0

// Ranks of processes that leave communicators early: the others are told.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

#include "child_process.hpp"
#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "transport/processes_run.hpp"
#include "transport/rank_report.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = process_communicator;

/// What happens on one rank, and others wait for.
class event {
 public:
  void set() { ++*count_; }
  void wait(int times = 1) const {
    while (count_->load() < times) std::this_thread::yield();
  }

 private:
  shared_with_children<std::atomic<int>> count_;
};

void check_missed(const outcome& end, int peer) {
  CHECK(end.kind == "peer_failed");
  CHECK(end.peer == peer);
  CHECK_MESSAGE(contains(end.text, "rank " + std::to_string(peer) + " left while rank "), end.text);
  CHECK_MESSAGE(contains(end.text, " of barrier by "), end.text);
}

}  // namespace

TEST_CASE("of a process that leaves communicators by an exception that it catches the others hear soon") {
  const alarm_limit limit(60);
  for (const bool returns : {true, false}) {
    CAPTURE(returns);
    const shared_with_children<rank_report> in_child(3), in_parent(3);
    event told;
    const auto ended = outcomes_of_processes(3, [&](comm_type& comm, rank_report& mine) {
      try {
        auto parent = comm.dup();
        auto child = parent.split(0, -parent.rank());
        tutti::barrier(child);
        if (comm.rank() == 1) throw std::runtime_error("no shoes");
        const auto begin = std::chrono::steady_clock::now();
        in_child[comm.rank()].write(outcome_of([&] { tutti::barrier(child); }));
        in_parent[comm.rank()].write(outcome_of([&] { tutti::barrier(parent); }));
        told.set();
        if (std::chrono::steady_clock::now() - begin < (sanitized ? 20s : 5s)) mine.steps.store(1);
      } catch (const std::runtime_error&) {
        if (!returns) told.wait(2);  // it has something else to do
      }
    });
    CHECK(ended.run == outcome{});
    for (const int rank : {0, 2}) {
      check_missed(in_child[rank].read(), 1);
      check_missed(in_parent[rank].read(), 1);
      CHECK(ended.steps_of(rank) == 1);
    }
  }
}
