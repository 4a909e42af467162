// SPDX-License-Identifier: BSL-1.0

// A8: a rank ends the group from another thread, while its own waits for somebody who does not come.

#include <doctest/doctest.h>
#include <tutti/run_processes.hpp>
#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "transport/processes_run.hpp"

namespace {

using namespace test;

/// One kind of collective, in which rank 0 waits for rank 2 of 3.
template <class Comm>
struct waits {
  const char* name;
  void (*call)(Comm& comm);
};

template <class Comm>
std::vector<waits<Comm>> kinds() {
  return {
      {"barrier", [](Comm& comm) { tutti::barrier(comm); }},
      {"allreduce",
       [](Comm& comm) {
         std::vector<int> values(10);
         tutti::allreduce(comm, values, std::plus{});
       }},
      {"large allreduce",
       [](Comm& comm) {
         std::vector<float> values(300'000);
         tutti::allreduce<tutti::ring>(comm, values, std::plus{});
       }},
      {"broadcast",
       [](Comm& comm) {
         std::vector<int> values(10);
         tutti::broadcast(comm, values, 2);
       }},
      {"alltoall",
       [](Comm& comm) {
         std::vector<int> values(30);
         tutti::alltoall(comm, values);
       }},
      {"iallreduce, waited for",
       [](Comm& comm) {
         std::vector<int> values(10);
         auto pending = tutti::iallreduce(comm, values, std::plus{});
         pending.wait();
       }},
      {"iallreduce, tested",
       [](Comm& comm) {
         std::vector<int> values(10);
         auto pending = tutti::iallreduce(comm, values, std::plus{});
         while (!pending.test()) std::this_thread::yield();
       }},
  };
}

/// On rank 0 of 3: calls, and aborts from a second thread. On rank 2: comes only after rank 0 has thrown.
template <class Comm>
void abort_while_waiting(Comm& comm, const waits<Comm>& kind, std::atomic<int>& thrown) {
  if (comm.rank() == 2)
    while (thrown.load() == 0) std::this_thread::yield();
  std::thread aborts;
  if (comm.rank() == 0) aborts = std::thread([&] { comm.abort("no more shoes"); });
  try {
    kind.call(comm);
  } catch (...) {
    if (comm.rank() == 0) ++thrown;
    if (aborts.joinable()) aborts.join();
    throw;
  }
  if (aborts.joinable()) aborts.join();
}

const outcome expected{"peer_failed", "rank 0 aborted: no more shoes: peer failed", 0};

}  // namespace

TEST_CASE("A8 abort from another thread ends what its rank waits for, between threads") {
  const deadline limit(std::chrono::seconds(30));
  using comm_type = tutti::communicator<tutti::threads>;
  for (const auto& kind : kinds<comm_type>()) {
    CAPTURE(kind.name);
    std::atomic<int> thrown{0};
    const outcomes all = outcomes_of_run(3, [&](comm_type& comm) { abort_while_waiting(comm, kind, thrown); });
    for (const outcome& o : all.of) CHECK(o == expected);
    CHECK(all.run == expected);
  }
}

TEST_CASE("A8 the same between processes") {
  const alarm_limit limit(120);
  for (const auto& kind : kinds<process_communicator>()) {
    CAPTURE(kind.name);
    const shared_with_children<std::atomic<int>> thrown;
    const auto all = outcomes_of_processes(
        3, [&](process_communicator& comm, rank_report&) { abort_while_waiting(comm, kind, *thrown); });
    for (const outcome& o : all.of) CHECK(o == expected);
    CHECK(all.run == expected);
  }
}

TEST_CASE("A8 the same under a virtual clock, where the rank itself or any other thread aborts") {
  const deadline limit(std::chrono::seconds(30));
  for (const bool other_thread : {false, true}) {
    std::array<outcome, 3> of;
    const outcome run = outcome_of([&] {
      tutti::run_simulated(3, {}, [&](auto& comm) {
        of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
          tutti::barrier(comm);
          if (comm.rank() == 0) {
            if (other_thread) {
              std::thread([&] { comm.abort("no more shoes"); }).join();
            } else {
              comm.abort("no more shoes");
            }
          }
          for (;;) tutti::barrier(comm);
        });
        tutti::barrier(comm);
      });
    });
    for (const outcome& o : of) CHECK(o == expected);
    CHECK(run == expected);
  }
}

TEST_CASE("a rank that aborts and leaves, alone or not, has failed; the first reason stays") {
  const deadline limit(std::chrono::seconds(30));
  const outcomes alone = outcomes_of_run(1, [](auto& comm) {
    comm.abort("once");
    comm.abort("twice");
    tutti::barrier(comm);
  });
  CHECK(alone.of[0].kind == "peer_failed");
  CHECK(contains(alone.of[0].text, "rank 0 aborted: once"));
  const outcome simulated = outcome_of([] {
    tutti::run_simulated(2, {}, [](auto& comm) {
      if (comm.rank() == 1) comm.abort("enough");
      if (comm.rank() == 0) tutti::barrier(comm);
    });
  });
  CHECK(simulated.kind == "peer_failed");
  CHECK(simulated.peer == 1);
  CHECK(contains(simulated.text, "rank 1 aborted: enough"));
}
