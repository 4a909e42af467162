// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/process_launch.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes.hpp>

#include <string>
#include <utility>

namespace tutti {

namespace detail {

/// What a rank of processes does from beginning to end: returns when all ranks have left.
template <class F>
void run_rank(processes_group& group, int rank, F& f) {
  group.attach(rank);
  {
    communicator<processes> comm(processes(group, rank));
    f(comm);
    group.check();
    group.leave(rank);
    // Others may still read what this rank has sent, and must not take it for dead.
    group.sleep_until([&] {
      for (int other = 0; other < group.size(); ++other)
        if (!group.has_left(other)) return false;
      return true;
    });
    group.check();
    group.check_same_calls();
    group.check();
  }
}

/// Tells the group that the rank has ended, if it does not know.
inline void report_end(processes_group& group, const process_end& end) {
  if (end.well() && group.has_left(end.rank)) return;
  group.fail({errc::peer_failed, end.rank,
              end.well() ? std::string(message() << "rank " << end.rank << " ended before its function returned")
                         : describe(end)},
             end.rank);
}

}  // namespace detail

/// Runs `f(comm)` on `size` ranks, each a process forked from this one, and returns when all have ended. `comm` is a
/// `tutti::communicator<tutti::processes>&`. What `f` changes in memory stays in its process.
///
/// If `f` throws on a rank, or its process dies in whatever way, every other rank that takes part in a collective
/// throws `peer_failed` naming it, and `run_processes` throws the first failure: `peer_failed` with the rank, and its
/// exception's text, exit code or signal; `mismatch` or `timed_out` where that is what the ranks threw. Throws
/// `usage_error` if `size < 1`, `resource_error` if the system refuses processes or memory.
template <class F>
void run_processes(int size, F&& f) {
  detail::processes_group group(size);
  detail::process_end culprit{-1, 0, 0};
  detail::run_forked(
      size, [&](int rank) { detail::run_rank(group, rank, f); },
      [&](int rank, const char* what) {
        group.fail({errc::peer_failed, rank, message() << "rank " << rank << " failed: " << what});
        group.leave(rank);
      },
      [&](const detail::process_end& end) {
        detail::report_end(group, end);
        if (group.why().peer == end.rank) culprit = end;
      });
  failure first = group.why();
  if (first.text.empty()) return;
  // Who found a process dead does not know how it died; its parent does.
  if (culprit.rank >= 0 && !culprit.well() && !group.told_by(culprit.rank) &&
      !first.text.starts_with(detail::describe(culprit)))
    first.text = detail::describe(culprit) + "; " + first.text;
  first.raise();
}

}  // namespace tutti
