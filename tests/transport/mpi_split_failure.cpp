// SPDX-License-Identifier: BSL-1.0

// What goes wrong on one rank while a communicator is made is told to those who are about to make it.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include <sched.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using communicator = tutti::communicator<tutti::mpi>;
using interrupted_communicator = tutti::communicator<interrupted<tutti::mpi>>;

template <class Comm>
int sum(Comm& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

/// What happens on one rank, and another waits for.
void tell(int rank) { MPI_Send(nullptr, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD); }
void await(int rank) {
  int there = 0;
  for (; there == 0; sched_yield()) MPI_Iprobe(rank, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  MPI_Recv(nullptr, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// `work(pair)` on the first two of three ranks, which go on with the others after that.
template <class Work>
void on_pair(Work&& work) {
  run_mpi_on(3, [&](communicator& comm) {
    if (comm.rank() < 2) {
      interrupted_communicator pair(interrupted<tutti::mpi>(comm.transport().subgroup(1, std::vector{0, 1})));
      work(pair);
    }
    CHECK(sum(comm, 1) == 3);
    auto again = comm.dup();
    CHECK(sum(again, 1) == 3);
  });
}

}  // namespace

TEST_CASE("a rank that fails at the end of a division is named to those who have ended it") {
  for (const int failing : {0, 1}) {
    const deadline limit(60s);
    CAPTURE(failing);
    on_pair([&](interrupted_communicator& pair) {
      if (pair.rank() == failing) {
        before_the_end = [&] {
          await(1 - failing);
          throw std::runtime_error("no shoes");
        };
      } else {
        before_the_end = [&] { tell(failing); };
      }
      const outcome mine = outcome_of([&] { auto part = pair.dup(); });
      if (pair.rank() == failing) {
        CHECK(mine == outcome{"other", "no shoes", -1});
      } else {
        CAPTURE(mine.text);
        CHECK(mine.kind == "peer_failed");
        CHECK(mine.peer == failing);
        CHECK(contains(mine.text, "rank " + std::to_string(failing) + " failed in dup"));
        CHECK(contains(mine.text, "no shoes"));
      }
    });
  }
}

TEST_CASE(
    "a rank that aborts before it comes to a new communicator, or does not come in time, is named to the others") {
  for (const bool aborts : {true, false}) {
    for (const int missed : {0, 1}) {
      const deadline limit(60s);
      CAPTURE(aborts);
      CAPTURE(missed);
      on_pair([&](interrupted_communicator& pair) {
        const std::vector<int> both{0, 1};
        if (pair.rank() != missed) {
          if (!aborts) pair.timeout(100ms);
          const outcome mine = outcome_of([&] { pair.transport().subgroup(2, both); });
          CAPTURE(mine.text);
          CHECK(mine.kind == (aborts ? "peer_failed" : "timed_out"));
          CHECK(mine.peer == missed);
          const std::string who = "rank " + std::to_string(missed);
          CHECK(contains(mine.text, aborts ? who + " aborted: enough" : who + " was late: rank "));
          CHECK(contains(mine.text, " (ranks of a communicator of ranks 0, 1)"));
          tell(missed);
        } else {
          if (aborts) pair.abort("enough");
          int told = 0;
          for (; told == 0; sched_yield()) {
            outcome_of([&] { pair.transport().check(); });
            MPI_Iprobe(1 - missed, 1, MPI_COMM_WORLD, &told, MPI_STATUS_IGNORE);
          }
          await(1 - missed);
        }
      });
    }
  }
}

TEST_CASE("a rank that cannot come to a new communicator is named to the others, who go on without one") {
  for (const int missed : {0, 1}) {
    const deadline limit(60s);
    CAPTURE(missed);
    on_pair([&](interrupted_communicator& pair) {
      const std::vector<int> both{0, 1};
      // There is no memory for so many members.
      const std::span<const int> too_many(both.data(), SIZE_MAX);
      const outcome mine =
          outcome_of([&] { pair.transport().subgroup(2, pair.rank() == missed ? too_many : std::span(both)); });
      CAPTURE(mine.text);
      if (pair.rank() == missed) {
        CHECK(mine.kind == "resource_error");
      } else {
        CHECK(mine.kind == "peer_failed");
        CHECK(mine.peer == missed);
        CHECK(contains(mine.text, " does not come to a new communicator"));
      }
      CHECK(sum(pair, 1) == 2);
      auto next = pair.dup();
      CHECK(sum(next, 1) == 2);
    });
  }
}

TEST_CASE("who does not come to a new communicator of three is late, not who has come after another") {
  const deadline limit(60s);
  run_mpi_on(4, [](communicator& comm) {
    const std::vector<int> three{0, 1, 2};
    if (comm.rank() < 3) {
      communicator trio{comm.transport().subgroup(1, three)};
      const outcome mine = outcome_of([&] {
        if (trio.rank() == 0) await(1);
        if (trio.rank() == 1) {
          trio.timeout(200ms);
          tell(0);
        }
        if (trio.rank() == 2)
          for (;;) trio.transport().check();
        trio.transport().subgroup(2, three);
      });
      CAPTURE(mine.text);
      CHECK(mine.kind == "timed_out");
      CHECK(mine.peer == 2);
      CHECK(contains(mine.text, "rank 2 was late: rank "));
    }
    CHECK(sum(comm, 1) == 4);
    auto again = comm.dup();
    CHECK(sum(again, 1) == 4);
  });
}
