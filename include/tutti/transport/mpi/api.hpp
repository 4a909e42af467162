// SPDX-License-Identifier: BSL-1.0
#pragma once

// MPI's C interface, its errors as exceptions, and what may be called when and from where.

// The C++ interface that older MPIs have beside it is not used, and long to compile.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>

#include <string>
#include <string_view>

namespace tutti::detail {

/// MPI has refused a call: as `usage_error` where its class says that an argument is wrong, `mismatch` where a message
/// is longer than expected, else as `resource_error`; with MPI's text.
[[noreturn, gnu::noinline, gnu::cold]] inline void raise_mpi(int code, std::string_view call) {
  char words[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  int kind = MPI_ERR_UNKNOWN;
  MPI_Error_string(code, words, &length);
  MPI_Error_class(code, &kind);
  const std::string text = message() << call << " failed: " << std::string_view(words);
  switch (kind) {
    case MPI_ERR_TRUNCATE:
      throw mismatch(text);
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_GROUP:
    case MPI_ERR_OP:
    case MPI_ERR_RANK:
    case MPI_ERR_ROOT:
    case MPI_ERR_TAG:
    case MPI_ERR_TYPE:
      throw usage_error(text);
    default:
      throw resource_error(text);
  }
}

/// Throws if MPI has refused the call.
inline void check_mpi(int code, std::string_view call) {
  if (code != MPI_SUCCESS) [[unlikely]]
    raise_mpi(code, call);
}

/// A function of MPI's lets no exception through: nothing need be kept for that while it is called.
template <class... Parameters, class... Arguments>
TUTTI_ALWAYS_INLINE inline int without_exceptions(int (*f)(Parameters...), Arguments... arguments) noexcept {
  return f(arguments...);
}
/// Calls `f(arguments...)`; throws if MPI refuses it.
template <class... Parameters, class... Arguments>
TUTTI_ALWAYS_INLINE inline void call_mpi(std::string_view name, int (*f)(Parameters...), Arguments... arguments) {
  check_mpi(without_exceptions(f, arguments...), name);
}

inline bool mpi_initialized() {
  int yes = 0;
  MPI_Initialized(&yes);
  return yes != 0;
}
inline bool mpi_finalized() {
  int yes = 0;
  MPI_Finalized(&yes);
  return yes != 0;
}

inline std::string_view name_of_thread_level(int level) {
  return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
         : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                          : "MPI_THREAD_MULTIPLE";
}

/// Throws `usage_error` if this thread may not call MPI now.
[[gnu::noinline, gnu::cold]] inline void require_mpi() {
  if (mpi_finalized())
    throw usage_error("run_mpi: MPI_Finalize has been called, after which nothing can be sent any more");
  if (!mpi_initialized())
    throw usage_error(
        "run_mpi: MPI has not been initialised: call MPI_Init or MPI_Init_thread before, or tutti::run_mpi(f) "
        "without a communicator, which does it");
  int level = MPI_THREAD_SINGLE;
  int is_main = 0;
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&is_main);
  if (is_main == 0 && level < MPI_THREAD_SERIALIZED)
    throw usage_error(message() << "run_mpi: this thread is not the one that has initialised MPI, and MPI provides "
                                << name_of_thread_level(level)
                                << ": call it from that thread, or initialise MPI by MPI_Init_thread with "
                                   "MPI_THREAD_SERIALIZED at least");
}

}  // namespace tutti::detail
