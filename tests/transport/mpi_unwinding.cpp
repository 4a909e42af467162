// SPDX-License-Identifier: BSL-1.0

// A rank's function throws while a collective over MPI is pending.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include "communicator/unwinding.hpp"

#include <sched.h>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <vector>

namespace {

using test::run_mpi_on;
using communicator = tutti::communicator<tutti::mpi>;

// Large messages on their way, as this rank's calls of MPI tell.
bool awaits_payloads = true;
int payloads_begun = 0;
bool is_payload(int tag) {
  return tag >= tutti::detail::mpi_tags::payload(0) && (tag - tutti::detail::mpi_tags::payload(0)) % 3 == 0;
}

}  // namespace

// In front of MPI's own: a large message may be asked for, and come so late that it is not received.
int MPI_Irecv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (awaits_payloads || !is_payload(tag)) return PMPI_Irecv(to, count, type, from, tag, comm, request);
  return PMPI_Irecv(to, count, type, 0, 0, MPI_COMM_SELF, request);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  if (is_payload(tag)) ++payloads_begun;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

TEST_CASE("an exception that passes a pending collective over MPI is what all hear of, and what run_mpi throws") {
  const test::deadline limit(std::chrono::seconds(100));
  test::for_each_unwinding([](const test::unwinding& u) {
    CAPTURE(u);
    test::rank_report mine;
    const test::outcome ended = test::outcome_of(
        [&] { run_mpi_on(u.ranks, [&](communicator& comm) { test::throw_past_pending(comm, mine, u); }); });
    if (test::world_rank() < u.ranks) test::check_unwinding(u, test::world_rank(), ended, mine.steps);
  });
}

TEST_CASE("a rank over MPI that catches what has passed a pending collective fails its communicator when it goes on") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const bool returns : {true, false}) {
    const test::outcome ended =
        test::outcome_of([&] { run_mpi_on(3, [&](communicator& comm) { test::catch_past_pending(comm, returns); }); });
    if (test::world_rank() < 3) test::check_caught(test::world_rank(), ended);
  }
  CHECK(test::outcome_of([] {
          run_mpi_on(3, [](communicator& comm) { test::catch_past_pending_on_duplicate(comm); });
        }) == test::outcome{});
}

TEST_CASE("a rank that has caught what passed a pending collective does not go deaf in a collective of MPI's own") {
  const test::deadline limit(std::chrono::seconds(60));
  const test::outcome ended = test::outcome_of([] {
    run_mpi_on(3, [](communicator& comm) {
      std::vector<int> data(100, 1);
      for (int i = 0; i < 2; ++i) tutti::barrier<tutti::native>(comm);  // not only the first one looks after it
      if (comm.rank() == 2) tutti::recv(comm, 1, data);  // in vain: so the collective cannot have finished before
      try {
        auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
        if (comm.rank() == 1) throw std::logic_error("that is dealt with");
        pending.wait();
      } catch (const std::logic_error&) {
      }
      tutti::barrier<tutti::native>(comm);
    });
  });
  if (test::world_rank() < 3) test::check_caught(test::world_rank(), ended);
}

TEST_CASE("a rank over MPI that has given up a collective, and left its communicator, is not waited for there") {
  for (const std::size_t count : {std::size_t{100}, std::size_t{100'000}}) {
    const test::deadline limit(std::chrono::seconds(60));
    CAPTURE(count);
    const test::outcome ended = test::outcome_of([&] {
      run_mpi_on(3, [&](communicator& comm) {
        std::vector<int> data(count, 1);
        test::outcome mine;
        try {
          auto part = comm.dup();
          if (comm.rank() != 1) MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          auto pending = tutti::iallreduce<tutti::ring>(part, data, std::plus{});
          if (comm.rank() == 1) throw std::logic_error("that is dealt with");
          mine = test::outcome_of([&] { pending.wait(); });
        } catch (const std::logic_error&) {
          for (const int other : {0, 2}) MPI_Send(nullptr, 0, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        }
        tutti::barrier(comm);
        if (comm.rank() == 1) return;
        CAPTURE(mine.text);
        CHECK(mine.kind == "peer_failed");
        CHECK(mine.peer == 1);
        CHECK(test::contains(mine.text, "rank 1 left while rank "));
      });
    });
    CHECK(ended == test::outcome{});
  }
}

TEST_CASE(
    "of a rank over MPI that an exception has taken out of a communicator others hear by its next call, though it does "
    "not wait") {
  for (const bool natively : {true, false}) {
    const test::deadline limit(std::chrono::seconds(60));
    CAPTURE(natively);
    const test::outcome ended = test::outcome_of([&] {
      run_mpi_on(3, [&](communicator& comm) {
        auto others = comm.split(comm.rank() % 2);  // 0 and 2
        tutti::barrier<tutti::native>(others);
        test::outcome mine;
        try {
          auto part = comm.split(comm.rank() / 2);  // 0 and 1
          if (comm.rank() == 0) throw std::logic_error("that is dealt with");
          if (comm.rank() == 1) {
            mine = test::outcome_of([&] { tutti::barrier(part); });
            MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
          }
        } catch (const std::logic_error&) {
        }
        if (comm.rank() == 1) {
          CAPTURE(mine.text);
          CHECK(mine.kind == "peer_failed");
          CHECK(mine.peer == 0);
          CHECK(test::contains(mine.text, "rank 0 left while rank 1 waited for it"));
        } else {
          std::vector<int> data(1, 0);
          if (natively) {
            tutti::broadcast<tutti::native>(others, data, 0);
          } else {
            tutti::broadcast<tutti::binomial>(others, data, 0);
          }
          if (comm.rank() == 0) {
            // It has something else to do.
            for (int told = 0; told == 0; sched_yield()) MPI_Iprobe(1, 1, MPI_COMM_WORLD, &told, MPI_STATUS_IGNORE);
            MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          }
        }
        tutti::barrier(comm);
      });
    });
    CHECK(ended == test::outcome{});
  }
}

TEST_CASE("two ranks over MPI that give up at once what they send each other do not wait for each other") {
  for (const bool by_exception : {true, false}) {
    const test::deadline limit(std::chrono::seconds(60));
    CAPTURE(by_exception);
    const test::outcome ended = test::outcome_of([&] {
      run_mpi_on(2, [&](communicator& comm) {
        std::vector<float> data(400'000, 1);
        const auto give_up = [&](communicator& on) {
          payloads_begun = 0;
          awaits_payloads = false;
          auto pending = tutti::iallreduce<tutti::ring>(on, data, std::plus{});
          while (payloads_begun == 0) pending.test();
          test::meet(test::first_ranks(2));
          if (by_exception) throw std::logic_error("that is dealt with");
        };
        try {
          if (by_exception) {
            auto part = comm.dup();
            give_up(part);
          } else {
            give_up(comm);
          }
        } catch (const std::logic_error&) {
        }
        awaits_payloads = true;
        tutti::barrier(comm);
      });
    });
    if (test::world_rank() >= 2) continue;
    CAPTURE(ended.text);
    CHECK(ended.kind == (by_exception ? "none" : "peer_failed"));
  }
}
