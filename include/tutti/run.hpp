// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/threads.hpp>

#include <cstddef>

namespace tutti {

namespace detail {

/// A group of threads and the communicator of each rank. Communicators outlive all threads: others may read their
/// scratch memory until the last rank has left.
class thread_ranks {
 public:
  explicit thread_ranks(int size) : group(size), comms_(static_cast<std::size_t>(size)) {
    try {
      for (int rank = 0; rank < size; ++rank) at(rank) = new communicator<threads>(threads(group, rank));
    } catch (...) {
      release();
      throw;
    }
  }
  thread_ranks(const thread_ranks&) = delete;
  thread_ranks& operator=(const thread_ranks&) = delete;
  ~thread_ranks() { release(); }

  communicator<threads>& operator[](int rank) { return *at(rank); }

  threads_group group;

 private:
  communicator<threads>*& at(int rank) { return comms_[static_cast<std::size_t>(rank)]; }
  void release() {
    for (communicator<threads>* const comm : comms_) delete comm;
  }

  owned_array<communicator<threads>*> comms_;
};

}  // namespace detail

/// Runs `f(comm)` on `size` ranks, each a thread of its own, and returns when all have returned. `comm` is a
/// `tutti::communicator<tutti::threads>&`.
///
/// If `f` throws on a rank, every other rank that takes part in a collective throws `peer_failed` naming it, and `run`
/// rethrows the exception that came first. Throws `usage_error` if `size < 1`, `resource_error` if the system refuses
/// threads, `mismatch` if in the end the ranks have not all made the same calls.
template <class F>
void run(int size, F&& f) {
  if (size < 1) throw usage_error(message() << "run: number of ranks is " << size << ", must be at least 1");
  detail::thread_ranks ranks(size);
  detail::threads_group& group = ranks.group;
  detail::run_threads(
      size,
      [&](int rank) {
        f(ranks[rank]);
        group.leave(rank, detail::presence::left);
      },
      [&](int rank, const char* what) {
        group.fail({errc::peer_failed, rank, message() << "rank " << rank << " failed: " << what});
        group.leave(rank, detail::presence::failed);
      },
      [&] { return group.culprit(); });
  if (group.failed()) return;  // every rank has had its exception, and dealt with it
  group.check_same_calls();
  group.check();
}

}  // namespace tutti
