// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/transport/threads.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Runs `f(comm)` on `size` ranks, each a thread of its own, and returns when all have returned. `comm` is a
/// `tutti::communicator<tutti::threads>&`.
///
/// If `f` throws on a rank, every other rank that takes part in a collective throws `peer_failed` naming it, and `run`
/// rethrows the exception that came first. Throws `usage_error` if `size < 1`, `resource_error` if the system refuses
/// threads, `mismatch` if in the end the ranks have not all made the same calls.
template <class F>
void run(int size, F&& f) {
  if (size < 1) throw usage_error(message() << "run: number of ranks is " << size << ", must be at least 1");
  const auto group = std::make_shared<detail::threads_group>(size);
  // Communicators outlive all threads: others may read their scratch memory until the last rank has left.
  std::vector<std::unique_ptr<communicator<threads>>> comms;
  for (int rank = 0; rank < size; ++rank)
    comms.push_back(std::make_unique<communicator<threads>>(threads(group, rank)));
  detail::run_threads(
      size,
      [&](int rank) {
        f(*comms[static_cast<std::size_t>(rank)]);
        group->leave(rank, detail::presence::left);
      },
      [&](int rank, const char* what) {
        group->fail({errc::peer_failed, rank, message() << "rank " << rank << " failed: " << what});
        group->leave(rank, detail::presence::failed);
      },
      [&] { return group->culprit(); });
  if (group->failed()) return;  // every rank has had its exception, and dealt with it
  group->check_same_calls();
  group->check();
}

}  // namespace tutti
