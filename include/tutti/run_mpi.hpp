// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/mpi.hpp>

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

namespace tutti {

/// A communicator of MPI's to be used as it is, instead of a duplicate: `run_mpi(mpi_borrowed{comm}, f)`. Saves what it
/// takes to make one, which is some messages to each rank. Until `run_mpi` returns the program itself may send nothing
/// on it with a tag of 24,000 or more, nor receive with MPI_ANY_TAG, nor call collectives of MPI's while tutti does.
struct mpi_borrowed {
  MPI_Comm comm;
};

namespace detail {

/// What a rank does from beginning to end: returns when all ranks have left.
template <class F>
void run_mpi_rank(MPI_Comm on, bool borrowed, F& f) {
  const auto job = std::make_shared<mpi_job>(on, borrowed);
  const auto group = std::make_shared<mpi_group>(job);
  const auto fail = [&](const char* what) {
    try {
      group->fail({errc::peer_failed, group->rank(), message() << "rank " << group->rank() << " failed: " << what});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
    job->part_failed(group->why());
    job->close();
  };
  try {
    {
      communicator<mpi> comm{mpi(group)};
      f(comm);
      comm.go_on();
    }
    group->part();
  } catch (...) {
    tell_and_rethrow(fail);
  }
  job->close();
}

/// Initialises MPI if nobody has, and has it finalised when the program ends.
inline void initialize_mpi() {
  if (mpi_initialized() || mpi_finalized()) return;
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  std::atexit([] {
    if (!mpi_finalized()) MPI_Finalize();
  });
}

}  // namespace detail

/// Runs `f(comm)` as one rank of those that MPI has started, and returns when all have ended: on all ranks of the given
/// communicator, which all call it. `comm` is a `tutti::communicator<tutti::mpi>&` with the same ranks. The
/// communicator is duplicated, so that messages of tutti's never meet the program's own; it may be any, and the program
/// may call this as often as it likes. What `f` throws comes out of it.
///
/// If `f` throws on a rank, every other rank throws `peer_failed` naming it, with the text, in the call that it waits
/// in or its next one; `run_mpi` returns on each rank when all ranks have come to its end. A rank that dies takes the
/// job with it, which is for MPI's launcher to do. Throws `usage_error` if MPI has not been initialised, has been
/// finalised, or provides too low a level of thread support for this thread; `mismatch` if in the end the ranks have
/// not all made the same calls.
template <class F>
void run_mpi(MPI_Comm comm, F&& f) {
  detail::run_mpi_rank(comm, false, f);
}

/// The same on the communicator itself.
template <class F>
void run_mpi(mpi_borrowed on, F&& f) {
  detail::run_mpi_rank(on.comm, true, f);
}

/// The same on all ranks that MPI has started (MPI_COMM_WORLD). If the program has not initialised MPI this does, and
/// then finalises it when the program ends, since MPI cannot be initialised twice.
template <class F>
void run_mpi(F&& f) {
  detail::initialize_mpi();
  detail::require_mpi();
  detail::run_mpi_rank(MPI_COMM_WORLD, false, f);
}

}  // namespace tutti
