// SPDX-License-Identifier: BSL-1.0

// What is possible when: before MPI has been initialised, by tutti itself, after and while it is being finalised, and
// on which thread. A program of its own, since MPI begins and ends once.

#include <tutti/run_mpi.hpp>
#include <tutti/tutti.hpp>

#include <array>
#include <functional>
#include <thread>

#include "transport/mpi_program.hpp"

using test::check;
using test::throws;

int main() {
  int calls = 0;
  const auto add = [&](auto& comm) {
    std::array<int, 1> one{1};
    tutti::allreduce(comm, one, std::plus{});
    check(one[0] == comm.size(), "the sum of ones");
    ++calls;
  };
  throws<tutti::usage_error>("before MPI_Init", "MPI has not been initialised: call MPI_Init",
                             [&] { tutti::run_mpi(MPI_COMM_WORLD, add); });
  tutti::run_mpi(add);
  tutti::run_mpi(add);
  tutti::run_mpi(MPI_COMM_WORLD, add);
  check(calls == 3, "all runs have run");
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    std::thread other([&] {
      throws<tutti::usage_error>("on another thread", "initialise MPI by MPI_Init_thread with MPI_THREAD_SERIALIZED",
                                 [&] { tutti::run_mpi(MPI_COMM_WORLD, add); });
    });
    other.join();
  }
  // Whoever calls it first is told by its next call; another may hear of it before.
  throws<tutti::error>("MPI_Finalize inside", "called MPI_Finalize while a communicator of run_mpi was in use", [&] {
    tutti::run_mpi([&](auto& comm) {
      std::array<int, 1> one{1};
      tutti::allreduce<tutti::native>(comm, one, [](int a, int) { return a; });  // with types and operations to free
      tutti::barrier(comm);
      MPI_Finalize();
      tutti::barrier(comm);
    });
  });
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
  throws<tutti::usage_error>("after MPI_Finalize", "MPI_Finalize has been called", [&] { tutti::run_mpi(add); });
  return test::failures;
}
