// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/environment.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/run_processes.hpp>
#include <tutti/run_tcp.hpp>
#include <tutti/transport/hierarchical.hpp>
#include <tutti/transport/job_hash.hpp>
#include <tutti/transport/processes.hpp>
#include <tutti/transport/processes/rendezvous_options.hpp>
#include <tutti/transport/tcp.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

namespace detail {

/// For each rank the lowest rank that it may share memory with.
template <class Group>
std::vector<int> hosts_of(const Group& all) {
  std::vector<int> lowest(static_cast<std::size_t>(all.size()));
  for (int rank = 0; rank < all.size(); ++rank) {
    int first = 0;
    while (all.memory_of(first) != all.memory_of(rank)) ++first;
    lowest[static_cast<std::size_t>(rank)] = first;
  }
  return lowest;
}

/// The ranks of this host meet: under a name that nobody else knows, since the start of the job has made it up.
template <class Group>
void meet_on_host(std::optional<processes_group>& here, Group& all, const tcp_options& options,
                  const std::vector<int>& lowest) {
  const auto me = static_cast<std::size_t>(options.rank);
  launched place;
  place.size = 0;
  for (std::size_t rank = 0; rank < lowest.size(); ++rank) {
    if (lowest[rank] != lowest[me]) continue;
    if (rank == me) place.rank = place.size;
    ++place.size;
  }
  const auto session = all.session();
  const job_hash name = job_hash::of(std::string_view(reinterpret_cast<const char*>(session.data()), session.size()));
  place.job = message() << options.job << ", host of rank " << lowest[me] << ", start "
                        << static_cast<unsigned long long>(name.words[0]);
  place.source = "the ranks that share this host";
  // In several attempts, since nobody learns in the meantime that a rank has died.
  const auto until = time_in(options.start_timeout);
  rendezvous_options how;
  for (std::chrono::nanoseconds attempt = std::chrono::milliseconds(250);; attempt *= 2) {
    const std::chrono::nanoseconds left = until - std::chrono::steady_clock::now();
    how.limit = std::clamp<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1), attempt);
    try {
      TUTTI_FAULT_POINT("hierarchical.meet");
      return meet(here, place, how);
    } catch (const timed_out&) {
      all.check();
      if (left <= attempt) throw;
    }
  }
}

/// What a rank does from beginning to end: returns when all ranks have left.
template <class Inner, class Outer, class F>
void run_hierarchical_rank(const tcp_options& options, F& f) {
  typename Outer::group_type all(options);
  const std::vector<int> lowest = hosts_of(all);
  std::optional<typename Inner::group_type> here;
  try {
    meet_on_host(here, all, options, lowest);
  } catch (const std::exception& e) {
    all.fail({errc::peer_failed, options.rank,
              message() << "rank " << options.rank << " of " << options.size
                        << " cannot share memory with the others of its host: " << e.what()});
    all.check();  // all throw the same
    throw;
  }
  std::optional<hierarchical_group<Inner, Outer>> group;
  // It is still there when the others learn of a failure, since they may read its memory.
  std::optional<communicator<hierarchical<Inner, Outer>>> comm;
  const auto fail = [&](const char* what) {
    all.fail({errc::peer_failed, options.rank, message() << "rank " << options.rank << " failed: " << what});
    here->end_rank((message() << " failed: " << what).str());
    here->leave(here->rank());
  };
  try {
    group.emplace(Inner(*here, here->rank()), Outer(all), lowest);
    comm.emplace(hierarchical<Inner, Outer>(*group));
    f(*comm);
    all.check();
    all.leave();
    TUTTI_FAULT_POINT("hierarchical.farewell");
    all.part();
    here->leave(here->rank());  // nobody waits for it any more
  } catch (const std::exception& e) {
    fail(e.what());
    throw;
  } catch (...) {
    fail("an exception that is no std::exception");
    throw;
  }
}

static_assert(allocating_transport<hierarchical<processes, tcp>> && splitting_transport<hierarchical<processes, tcp>> &&
              hosted_transport<hierarchical<processes, tcp>> && landing_lane<hierarchical<processes, tcp>::lane_type>);

}  // namespace detail

/// Runs `f(comm)` as one rank of a job on one host or several, and returns when all ranks have ended. Ranks that share
/// a host talk through memory, as `run_processes` does, all others through TCP, as `run_tcp` does. `comm` is a
/// `tutti::communicator<tutti::hierarchical<tutti::processes, tutti::tcp>>&`, whose `comm.allocate<T>(n)` gives memory
/// that the ranks of the host read where it is. What `f` throws comes out of it.
///
/// Who shares a host is found out at the start: ranks of one user and of one boot of one system, in the same namespaces
/// of network, processes and IPC, that have the same `options.host`.
///
/// Failures, exceptions and costs are those of `run_tcp`; a rank that has died is noticed at once by the others.
/// Connections that carry data exist between hosts only. One rank alone opens none at all.
template <class F>
void run_hierarchical(const tcp_options& options, F&& f) {
  TUTTI_FAULT_RANK(options.rank);
  detail::run_hierarchical_rank<processes, tcp>(options, f);
}

/// The same as the rank that this process is among those that a launcher has started, with what `run_tcp` reads from
/// the environment.
template <class F>
void run_hierarchical(F&& f) {
  run_hierarchical(tcp::from_environment(), std::forward<F>(f));
}

}  // namespace tutti
