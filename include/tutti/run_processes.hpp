// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/environment.hpp>
#include <tutti/communicator/process_launch.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes.hpp>
#include <tutti/transport/processes/rendezvous.hpp>

#include <fcntl.h>
#include <optional>
#include <string>
#include <utility>

namespace tutti {

namespace detail {

/// What a rank of processes does from beginning to end: returns when all ranks have left.
template <class F>
void run_rank(processes_group& group, int rank, F& f) {
  communicator<processes> comm(processes(group, rank));
  f(comm);
  comm.go_on();
  group.check();
  group.leave(rank);
  TUTTI_FAULT_POINT("run.farewell");
  // Others may still read what this rank has sent, and must not take it for dead.
  group.sleep_until([&] {
    for (int other = 0; other < group.size(); ++other)
      if (!group.has_left(other)) return false;
    return true;
  });
  TUTTI_FAULT_POINT("run.all_left");
  group.check();
  group.check_same_calls();
  group.check();
}

/// The group of which this process is the rank that its launcher says, once all have come.
inline void meet(std::optional<processes_group>& group, const launched& me, rendezvous_options options) {
  options.layout ^= processes_group::layout();
  if (me.local_size != -1 && me.local_size != me.size)
    throw usage_error(message() << "run_processes: " << me.source << " say " << me.size << " ranks, of which "
                                << me.local_size << " are on this host; ranks that are processes must share a host");
  if (me.rank == 0) {
    try {
      TUTTI_FAULT_POINT("run.create");
      group.emplace(me.size);
    } catch (const error& e) {
      refuse_all(0, me.size, me.job, {static_cast<errc>(e.code().value()), 0, e.what()}, options);
      throw;
    }
  }
  share_descriptor(me.rank, me.size, me.job, me.rank == 0 ? group->descriptor() : -1, options, [&](int descriptor) {
    TUTTI_FAULT_POINT("run.attach");
    if (me.rank != 0) group.emplace(segment::attach(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)));
    group->attach(me.rank);
  });
}

/// What a rank that a launcher has started does.
template <class F>
void run_launched(const launched& me, const rendezvous_options& options, F& f) {
  TUTTI_FAULT_RANK(me.rank);
  std::optional<processes_group> group;
  meet(group, me, options);
  const auto fail = [&](const char* what) {
    group->end_rank((message() << " failed: " << what).str());
    group->leave(me.rank);
  };
  try {
    run_rank(*group, me.rank, f);
  } catch (...) {
    tell_and_rethrow(fail);
  }
}

/// Tells the group that the rank has ended, if it does not know.
inline void report_end(processes_group& group, const process_end& end) {
  if (end.well() && group.has_left(end.rank)) return;
  group.fail({errc::peer_failed, end.rank,
              end.well() ? std::string(message() << "rank " << end.rank << " ended before its function returned")
                         : describe(end)});
}

}  // namespace detail

/// Runs `f(comm)` on `size` ranks, each a process forked from this one, and returns when all have ended. `comm` is a
/// `tutti::communicator<tutti::processes>&`. What `f` changes in memory stays in its process.
///
/// If `f` throws on a rank, or its process dies in whatever way, every other rank that takes part in a collective
/// throws `peer_failed` naming it, and `run_processes` throws the first failure: `peer_failed` with the rank, and its
/// exception's text, exit code or signal; `mismatch` or `timed_out` where that is what the ranks threw. Throws
/// `usage_error` if `size < 1`, `resource_error` if the system refuses processes or memory.
///
/// In a communicator of two ranks, as run or as divided, each reads large messages in the memory of the other's process
/// (process_vm_readv) where the system allows that and it is the faster way. So that the Yama security module allows it
/// between processes of which neither is the other's parent, each of these ranks then calls prctl(PR_SET_PTRACER,
/// PR_SET_PTRACER_ANY): until it ends, every process of the same user may read its memory and trace it, as everywhere
/// where kernel.yama.ptrace_scope is 0. Where it is 2 or more, or without Yama, the call changes nothing.
template <class F>
void run_processes(int size, F&& f) {
  detail::processes_group group(size);
  detail::process_end culprit{-1, 0, 0};
  detail::run_forked(
      size,
      [&](int rank) {
        group.attach(rank);
        detail::run_rank(group, rank, f);
      },
      [&](int rank, const char* what) {
        group.end_rank((message() << " failed: " << what).str());
        group.leave(rank);
      },
      [&](const detail::process_end& end) {
        detail::report_end(group, end);
        if (group.why().peer == end.rank) culprit = end;
      });
  failure first = group.why();
  if (first.text.empty()) return;
  // Who found a process dead does not know how it died; its parent does.
  if (first.kind == errc::peer_failed && culprit.rank >= 0 && !group.has_left(culprit.rank) &&
      !group.told_by(culprit.rank) && !first.text.starts_with(detail::describe(culprit)))
    first.text = detail::describe(culprit) + "; " + first.text;
  first.raise();
}

/// The same where a launcher has started the ranks, one process each: torchrun, srun, an mpirun, or a script that sets
/// RANK and WORLD_SIZE, or TUTTI_RANK and TUTTI_SIZE (`tutti::from_environment` says what is read). Runs `f(comm)` as
/// the rank that this process is, and returns when all ranks have ended. What `f` throws comes out of it.
///
/// All processes must be on one host, of one user, and come within 30 seconds; nothing has a name in a file system, so
/// nothing can be left behind. Throws `usage_error` naming the variable that is wrong or missing, `timed_out` naming
/// the ranks that did not come, `mismatch` if their programs differ. Where the ranks are two, or a communicator of two
/// is divided from them, this process may be read and traced by others of its user from then on, also when this has
/// returned: PR_SET_PTRACER_ANY, as above.
template <class F>
void run_processes(F&& f) {
  detail::run_launched(from_environment(), {}, f);
}

}  // namespace tutti
