// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/ranks.hpp>
#include <tutti/transport/threads.hpp>

#include <utility>

namespace tutti {

/// Runs `f(comm)` on `size` ranks, each a thread of its own, and returns when all have returned. `comm` is a
/// `tutti::communicator<tutti::threads>&`.
///
/// If `f` throws on a rank, every other rank that takes part in a collective throws `peer_failed` naming it, and `run`
/// rethrows the exception that came first. Throws `usage_error` if `size < 1`, `resource_error` if the system refuses
/// threads or memory, `mismatch` if in the end the ranks have not all made the same calls.
template <class F>
void run(int size, F&& f) {
  detail::ranks<threads> ranks(size);
  detail::run_ranks(ranks, std::forward<F>(f));
}

}  // namespace tutti
