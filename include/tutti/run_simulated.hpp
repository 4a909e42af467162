// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/ranks.hpp>
#include <tutti/transport/simulated.hpp>

namespace tutti {

/// Runs `f(comm)` on `size` ranks under a virtual clock, on the network and with the faults that `options` describe,
/// and returns how long that took, in virtual time. `comm` is a `tutti::communicator<tutti::simulated>&`; each rank is
/// a thread of its own, and one at a time runs. Equal options make equal runs, event by event.
///
/// Exceptions are those of `run`. A rank that crashes, as told, runs no further; the others throw `peer_failed` naming
/// it. A rank that waits longer than its timeout, in virtual time, ends the run by `timed_out`, and so does a deadlock,
/// where every rank waits and nothing is under way: at once, saying who waits for whom. Throws `usage_error` if an
/// option makes no sense, `resource_error` if the system refuses threads or memory.
template <class F>
simulated_report run_simulated(int size, const simulated_options& options, F&& f) {
  detail::ranks<simulated> ranks(size, options);
  detail::run_ranks(ranks, [&](communicator<simulated>& comm) {
    try {
      ranks.group.enter(comm.rank());
      f(comm);
    } catch (const detail::rank_crashed&) {
      // As if killed: the others have been told.
    }
  });
  return ranks.group.report();
}

}  // namespace tutti
