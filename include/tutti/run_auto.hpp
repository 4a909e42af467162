// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/launch_kind.hpp>
#include <tutti/run.hpp>
#include <tutti/run_hierarchical.hpp>
#include <tutti/run_processes.hpp>
#if defined(TUTTI_MPI)
#include <tutti/run_mpi.hpp>
#endif

#include <cstdlib>
#include <utility>

namespace tutti {

namespace detail {

/// What `run_auto` does in this process.
inline launch_kind launch_kind_here() {
#if defined(TUTTI_MPI)
  constexpr bool with_mpi = true;
#else
  constexpr bool with_mpi = false;
#endif
  return launch_kind_of([](const char* name) -> const char* { return std::getenv(name); }, with_mpi);
}

}  // namespace detail

/// Runs `f(comm)` as the rank that this process is, over whatever suits how it was started, so that one program runs
/// everywhere: `f` takes a communicator of any transport.
///
/// - Alone, without a launcher: the only rank, as `run(1, f)`.
/// - Started by MPI's mpirun, in a program that is linked with `tutti::mpi`: `run_mpi`.
/// - All ranks on one host, as the launcher says: `run_processes`. So too where it does not say how many are on this
///   host, and nothing (MASTER_ADDR, Slurm) says where rank 0 is.
/// - Else: `run_hierarchical`, which finds out who shares a host.
///
/// Throws what those throw, and `usage_error` naming the variable that is wrong; so too where the launcher of one MPI
/// starts a program that is linked with another.
template <class F>
void run_auto(F&& f) {
  switch (detail::launch_kind_here()) {
    case detail::launch_kind::processes:
      return run_processes(std::forward<F>(f));
    case detail::launch_kind::hosts:
      return run_hierarchical(std::forward<F>(f));
    case detail::launch_kind::mpi:
#if defined(TUTTI_MPI)
      return run_mpi(std::forward<F>(f));
#endif
    case detail::launch_kind::alone:
      break;
  }
  run(1, std::forward<F>(f));
}

}  // namespace tutti
