// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests that mpirun starts as eight ranks: every rank runs all test cases. A smaller number of ranks is the first
// of them, on a communicator of their own; the others wait for them meanwhile.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <tutti/run_mpi.hpp>

#include <sched.h>
#include <cstddef>
#include <utility>
#include <vector>

#include "deadline.hpp"

namespace test {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// All ranks have come. As MPI's own barrier does not, it gives way to others meanwhile.
inline void meet(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  for (int done = 0; done == 0; sched_yield()) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

/// A communicator of the first `ranks` ranks; MPI_COMM_NULL on the others. All are made in the beginning.
inline MPI_Comm first_ranks(int ranks) {
  static const std::vector<MPI_Comm> made = [] {
    std::vector<MPI_Comm> all(1, MPI_COMM_NULL);
    for (int size = 1; size <= world_size(); ++size) {
      all.push_back(MPI_COMM_NULL);
      MPI_Comm_split(MPI_COMM_WORLD, world_rank() < size ? 0 : MPI_UNDEFINED, world_rank(), &all.back());
    }
    return all;
  }();
  return made.at(static_cast<std::size_t>(ranks));
}

/// Runs `f(comm)` on so many ranks. What it throws on a rank comes out there when all of them have ended.
template <class F>
void run_mpi_on(int ranks, F&& f) {
  const MPI_Comm some = first_ranks(ranks);
  if (some != MPI_COMM_NULL) tutti::run_mpi(some, std::forward<F>(f));
}

}  // namespace test

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  test::first_ranks(1);
  int code = 0;
  {
    doctest::Context context(argc, argv);
    // One rank tells that all is well, each what is not.
    if (test::world_rank() != 0) context.setOption("minimal", true);
    code = context.run();
  }
  test::meet(MPI_COMM_WORLD);
  MPI_Finalize();
  return code;
}
