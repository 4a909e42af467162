// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/environment.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp.hpp>
#include <tutti/transport/tcp/environment.hpp>
#include <tutti/transport/tcp/loopback.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <atomic>
#include <cstdlib>
#include <utility>

namespace tutti {

namespace detail {

/// What a rank does from beginning to end: returns when all ranks have left. `failed(failure)` is told why the group
/// failed, if it did, while what was thrown is on its way.
template <class Transport, class F, class Failed>
void run_tcp_rank(const tcp_options& options, F& f, Failed&& failed) {
  typename Transport::group_type group(options);
  const auto fail = [&](const char* what) {
    group.fail({errc::peer_failed, options.rank, message() << "rank " << options.rank << " failed: " << what});
    failed(group.why());
  };
  try {
    communicator<Transport> comm{Transport(group)};
    f(comm);
    comm.go_on();
    group.check();
    group.leave();
    group.part();
  } catch (...) {
    tell_and_rethrow(fail);
  }
}

}  // namespace detail

/// Runs `f(comm)` as one rank of a job whose ranks talk through TCP, on one host or several, and returns when all have
/// ended. `comm` is a `tutti::communicator<tutti::tcp>&`. What `f` throws comes out of it.
///
/// If `f` throws on a rank, or its process or host is gone, every other rank throws `peer_failed` naming it, whether or
/// not it waits for that rank: at once where the system says so, else within the heartbeat of `options`. Throws
/// `usage_error` naming the option that is wrong, `timed_out` naming the ranks that did not come, `mismatch` if their
/// programs differ or in the end they have not all made the same calls, `resource_error` if the system refuses
/// descriptors, threads or memory.
///
/// Costs one connection to rank 0 for each other rank, one for each pair that has something to say, and a thread that
/// sleeps. One rank alone opens nothing.
template <class F>
void run_tcp(const tcp_options& options, F&& f) {
  TUTTI_FAULT_RANK(options.rank);
  detail::run_tcp_rank<tcp>(options, f, [](const failure&) {});
}

/// The same as the rank that this process is among those that a launcher has started: torchrun, srun, an mpirun, or a
/// script. They meet at MASTER_ADDR and MASTER_PORT; `tutti::from_environment` says where rank and size are read, and
/// `tutti::detail::tcp_options_from_environment` all else.
template <class F>
void run_tcp(F&& f) {
  run_tcp(tcp::from_environment(), std::forward<F>(f));
}

/// The same with all ranks as threads of this process, which talk over loopback: to try something out. Rethrows the
/// first exception that a rank threw.
template <class F>
void run_tcp(int size, F&& f) {
  if (size < 1) throw usage_error(message() << "run_tcp: number of ranks is " << size << ", must be at least 1");
  detail::tcp_loopback all(size);
  std::atomic<int> culprit{-1};
  detail::run_threads(
      size,
      [&](int rank) {
        detail::run_tcp_rank<tcp>(all.options(rank), f, [&](const failure& why) {
          if (why.kind == errc::peer_failed) culprit.store(why.peer, std::memory_order_relaxed);
        });
      },
      [](int, const char*) {}, [&] { return culprit.load(std::memory_order_relaxed); });
}

inline tcp_options tcp::from_environment() {
  const auto lookup = [](const char* name) -> const char* { return std::getenv(name); };
  return detail::tcp_options_from_environment(tutti::from_environment(lookup), lookup);
}

}  // namespace tutti
