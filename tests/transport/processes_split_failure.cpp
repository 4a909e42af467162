// SPDX-License-Identifier: BSL-1.0

// Ranks of processes that fail, die or abort while communicators are made, or leave them early: the others are told,
// and nothing is left behind.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <signal.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "transport/processes_run.hpp"
#include "transport/rank_report.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = process_communicator;
using interrupted_processes = interrupted<tutti::processes>;
static_assert(tutti::splitting_transport<interrupted_processes>);

void expect(bool right, const char* what) {
  if (!right) throw std::logic_error(what);
}
template <class Comm>
int sum(Comm& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

void check_missed(const outcome& end, int peer) {
  CHECK(end.kind == "peer_failed");
  CHECK(end.peer == peer);
  CHECK_MESSAGE(contains(end.text, "rank " + std::to_string(peer) + " left while rank "), end.text);
  CHECK_MESSAGE(contains(end.text, " of barrier by "), end.text);
}

/// The names of shared memory that may be ours.
std::set<std::string> names_of_memory() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none))
    if (const std::string name = entry.path().filename().string(); name.starts_with("tutti-")) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("a process that fails at the end of a division is missed by those who have ended it") {
  const alarm_limit limit(60);
  shared_with_children<rank_report> ends(3);
  event divided, told;
  tutti::detail::processes_group group(3);
  std::vector<int> codes(3, -1);
  tutti::detail::run_forked(
      3,
      [&](int rank) {
        group.attach(rank);
        tutti::communicator<interrupted_processes> comm(interrupted_processes(group, rank));
        auto pair = comm.split(rank / 2);
        if (rank == 0) {
          auto part = pair.dup();
          divided.set();
          ends[rank].write(outcome_of([&] { tutti::barrier(part); }));
          told.set();
        } else if (rank == 1) {
          before_the_end = [&] {
            divided.wait();
            throw std::runtime_error("no shoes");
          };
          ends[rank].write(outcome_of([&] { const auto part = pair.dup(); }));
          told.wait();
        }
        expect(sum(comm, 1) == 3, "the whole goes on");
        auto again = comm.dup();
        expect(sum(again, 1) == 3, "and is divided again");
        group.leave(rank);
      },
      [](int, const char*) {},
      [&](const tutti::detail::process_end& end) { codes[static_cast<std::size_t>(end.rank)] = end.code; });
  CHECK(codes == std::vector<int>(3, 0));
  CHECK(ends[1].read() == outcome{"other", "no shoes", -1});
  check_missed(ends[0].read(), 1);
}

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

TEST_CASE("a process that aborts or dies before it comes to a new communicator is named there") {
  const alarm_limit limit(120);
  const std::array<int, 3> members{2, 1, 0};
  const auto names = names_of_memory();
  enum class way { aborts_and_stays_out, aborts_and_comes, dies };
  for (const way how : {way::aborts_and_stays_out, way::aborts_and_comes, way::dies}) {
    for (const bool others_first : {true, false}) {
      CAPTURE(static_cast<int>(how));
      CAPTURE(others_first);
      const shared_with_children<rank_report> ends(3);
      event come, done, told;
      const auto ended = outcomes_of_processes(3, [&](comm_type& comm, rank_report&) {
        rank_report& mine = ends[comm.rank()];
        // All have agreed on the new communicator by now.
        if (comm.rank() == 2) {
          if (others_first) come.wait(2);
          if (how == way::dies) {
            done.set();
            kill(getpid(), SIGKILL);
          }
          comm.abort("enough");
          done.set();
          if (how == way::aborts_and_comes) {
            comm_type part(comm.transport().subgroup(1, members));
            mine.write(outcome_of([&] { tutti::barrier(part); }));
          }
          told.wait(2);
          return;
        }
        if (!others_first) done.wait();
        comm_type part(comm.transport().subgroup(1, members));
        come.set();
        mine.write(outcome_of([&] {
          for (;;) tutti::barrier(part);
        }));
        told.set();
      });
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == 2);
      for (const int rank : {0, 1, 2}) {
        if (rank == 2 && how != way::aborts_and_comes) continue;
        const outcome end = ends[rank].read();
        CAPTURE(end.text);
        CHECK(end.kind == "peer_failed");
        CHECK(end.peer == 0);
        CHECK(contains(end.text, how == way::dies ? ") has ended without a word" : "rank 0 aborted: enough"));
        CHECK(contains(end.text, " (ranks of a communicator of ranks 2, 1, 0)"));
      }
    }
  }
  CHECK(names_of_memory() == names);
}

TEST_CASE("another thread may abort while a rank finds out who has died") {
  const alarm_limit limit(60);
  tutti::detail::processes_group group(2);
  child_process dead([&] {
    group.attach(1);
    return 0;
  });
  await_zombie(dead.pid());
  group.attach(0);
  group.fail({tutti::errc::peer_failed, 1, "rank 1 is dead, as another rank has found"});
  // One after the other, but nothing orders what they do.
  std::atomic<bool> aborted{false};
  std::thread aborts([&] {
    group.abort("enough");
    aborted.store(true, std::memory_order_relaxed);
  });
  std::thread looks([&] {
    while (!aborted.load(std::memory_order_relaxed)) std::this_thread::yield();
    group.look_for_dead();
  });
  aborts.join();
  looks.join();
  const outcome end = outcome_of([&] { group.raise(); });
  CHECK(end == outcome{"peer_failed", "rank 1 is dead, as another rank has found: peer failed", 1});
}
