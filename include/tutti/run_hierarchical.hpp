// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/environment.hpp>
#include <tutti/core/clock.hpp>
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
#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
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

/// The ranks that share the host of that one, in order: by their numbers there.
inline std::vector<int> ranks_beside(int rank, const std::vector<int>& lowest) {
  std::vector<int> beside;
  for (std::size_t other = 0; other < lowest.size(); ++other)
    if (lowest[other] == lowest[static_cast<std::size_t>(rank)]) beside.push_back(static_cast<int>(other));
  return beside;
}

/// Which rank this is of those of its host, and what they call their job: a name that nobody else knows, since the
/// start of the whole job has made it up.
template <class Group>
launched place_on_host(const Group& all, const tcp_options& options, const std::vector<int>& beside) {
  launched place;
  place.rank = static_cast<int>(std::find(beside.begin(), beside.end(), options.rank) - beside.begin());
  place.size = static_cast<int>(beside.size());
  const auto session = all.session();
  const job_hash name = job_hash::of(std::string_view(reinterpret_cast<const char*>(session.data()), session.size()));
  place.job = message() << options.job << ", host of rank " << beside.front() << ", start "
                        << static_cast<unsigned long long>(name.words[0]);
  place.source = "the ranks that share this host";
  return place;
}

/// The ranks of this host meet.
template <class Group>
void meet_on_host(std::optional<processes_group>& here, Group& all, const launched& place,
                  std::chrono::milliseconds limit) {
  // In several attempts, since nobody learns in the meantime that a rank has died. None is so short that a rank which
  // is there would not be found. Others may begin theirs at other times, and end this one early: then it is made again.
  // Where a rank of this host has failed, that rank says so to all.
  constexpr std::chrono::nanoseconds shortest = std::chrono::milliseconds(250);
  const auto until = time_in(limit);
  const auto left = [&] { return std::chrono::nanoseconds(until - std::chrono::steady_clock::now()); };
  rendezvous_options how;
  for (std::chrono::nanoseconds attempt = shortest;;) {
    const std::chrono::nanoseconds rest = std::max<std::chrono::nanoseconds>(left(), std::chrono::milliseconds(1));
    how.limit = rest < 2 * attempt ? rest : attempt;
    try {
      TUTTI_FAULT_POINT("hierarchical.meet");
      return meet(here, place, how);
    } catch (const error& e) {
      const bool of_another = e.code() == errc::timed_out || e.code() == errc::peer_failed;
      if (!of_another) throw;
      all.check();
      if (left() < shortest) throw;
    }
    if (left() + how.limit > rest)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // who has ended it may still be there
    else
      attempt *= 2;
  }
}

/// The ranks of this host could not meet, for what is being handled: all ranks throw the same, which names who was
/// missing or has failed in the numbers of all ranks.
template <class Group>
[[noreturn, gnu::noinline, gnu::cold]] void fail_meeting(Group& all, const std::vector<int>& beside,
                                                         const std::exception& e) {
  const auto in_all = [&](int here) {
    return here >= 0 && here < static_cast<int>(beside.size()) ? beside[static_cast<std::size_t>(here)] : all.rank();
  };
  failure f{errc::peer_failed, all.rank(), {}};
  if (const auto* const late = dynamic_cast<const timed_out*>(&e)) {
    f = {errc::timed_out, in_all(late->peer()), {}};
  } else if (const auto* const gone = dynamic_cast<const peer_failed*>(&e)) {
    f.peer = in_all(gone->peer());
  } else if (const auto* const own = dynamic_cast<const error*>(&e)) {
    if (own->code() == errc::mismatch || own->code() == errc::resource) f.kind = static_cast<errc>(own->code().value());
  }
  const auto is_here = [&](int rank) { return std::binary_search(beside.begin(), beside.end(), rank); };
  f.text = message() << "ranks that share a host cannot meet: " << e.what() << numbers_on_host(all.size(), is_here);
  all.fail(f);
  all.whole().raise();
}

/// What a rank does from beginning to end: returns when all ranks have left.
template <class Inner, class Outer, class F>
void run_hierarchical_rank(const tcp_options& options, F& f) {
  typename Outer::group_type all(options);
  const std::vector<int> lowest = hosts_of(all);
  const std::vector<int> beside = ranks_beside(options.rank, lowest);
  std::optional<typename Inner::group_type> here;
  try {
    meet_on_host(here, all, place_on_host(all, options, beside), options.start_timeout);
  } catch (const std::exception& e) {
    fail_meeting(all, beside, e);
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
    comm->go_on();
    all.check();
    all.leave();
    TUTTI_FAULT_POINT("hierarchical.farewell");
    all.part();
    here->leave(here->rank());  // nobody waits for it any more
  } catch (...) {
    tell_and_rethrow(fail);
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
