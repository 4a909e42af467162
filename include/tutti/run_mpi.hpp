// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch_kind.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/mpi.hpp>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace tutti {

/// A communicator of MPI's to be used as it is, instead of a duplicate: `run_mpi(mpi_borrowed{comm}, f)`. Saves what it
/// takes to make one, which is some messages to each rank. Until `run_mpi` returns the program itself may send nothing
/// on it with a tag of 24,000 or more, nor receive with MPI_ANY_TAG, nor call collectives of MPI's while tutti does.
struct mpi_borrowed {
  MPI_Comm comm;
};

namespace detail {

/// Which MPI the program is linked with, such as "Open MPI v4.1.4".
[[gnu::noinline, gnu::cold]] inline std::string name_of_mpi() {
  char words[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(words, &length);
  std::string name;
  for (const char* at = words; *at != '\0' && *at != ',' && *at != '\n'; ++at) name += *at == '\t' ? ' ' : *at;
  return name;
}

/// Throws `usage_error` if a launcher has started several ranks that MPI knows nothing of: each would be alone. It has
/// been initialised. Who asks for MPI_COMM_SELF wants that.
inline void require_launched_ranks(MPI_Comm on) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 1 || on == MPI_COMM_SELF) return;
#if defined(OPEN_MPI)
  constexpr bool open_mpi = true;
#else
  constexpr bool open_mpi = false;
#endif
  const auto lookup = [](const char* name) -> const char* { return std::getenv(name); };
  const launcher_variables* const by = launcher_of_more_ranks(lookup, open_mpi);
  if (by == nullptr) return;
  throw usage_error(message() << "run_mpi: " << by->size << "=" << lookup(by->size) << " says that the launcher of "
                              << (by == &open_mpi_variables ? "Open MPI" : "MPICH or another MPI with PMI")
                              << " has started several ranks, but MPI_COMM_WORLD has one: the program is linked with "
                              << name_of_mpi() << "; start it with the launcher of that MPI");
}

/// What a rank does from beginning to end: returns when all ranks have left.
template <class F>
void run_mpi_rank(MPI_Comm on, bool borrowed, F& f) {
  require_mpi();
  require_launched_ranks(on);
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
/// finalised, or provides too low a level of thread support for this thread; and if the launcher of another MPI has
/// started the program, where each rank would be alone, unless that is asked for by MPI_COMM_SELF. `mismatch` if in the
/// end the ranks have not all made the same calls.
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
  detail::run_mpi_rank(MPI_COMM_WORLD, false, f);
}

}  // namespace tutti
