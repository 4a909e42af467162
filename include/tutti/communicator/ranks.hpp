// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks that are threads of one process, on whatever transport carries their bytes.

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>

#include <cstddef>
#include <utility>

namespace tutti::detail {

/// A group and the communicator of each rank. Communicators outlive all threads: others may read their scratch memory
/// until the last rank has left.
template <class Transport>
class ranks {
 public:
  using communicator_type = communicator<Transport>;
  using group_type = typename Transport::group_type;

  template <class... Arguments>
  explicit ranks(int size, Arguments&&... arguments)
      : group(checked(size), std::forward<Arguments>(arguments)...), comms_(static_cast<std::size_t>(size)) {
    try {
      for (int rank = 0; rank < size; ++rank)
        at(rank) = allocating(sizeof(apart), "the communicator of a rank",
                              [&] { return new apart{communicator_type(Transport(group, rank))}; });
    } catch (...) {
      release();
      throw;
    }
  }
  ranks(const ranks&) = delete;
  ranks& operator=(const ranks&) = delete;
  ~ranks() { release(); }

  communicator_type& operator[](int rank) { return at(rank)->comm; }

  group_type group;

 private:
  /// Each rank writes its own at every call.
  struct alignas(apart_bytes) apart {
    communicator_type comm;
  };

  static int checked(int size) {
    if (size < 1) throw usage_error(message() << "run: number of ranks is " << size << ", must be at least 1");
    return size;
  }
  apart*& at(int rank) { return comms_[static_cast<std::size_t>(rank)]; }
  void release() {
    for (apart* const each : comms_) delete each;
  }

  owned_array<apart*> comms_;
};

/// Runs `f(comm)` on every rank, each a thread of its own, and returns when all have returned; rethrows what the rank
/// threw that made the group fail, or else what was thrown first. Fails if in the end the ranks have not all made the
/// same calls.
template <class Transport, class F>
void run_ranks(ranks<Transport>& all, F&& f) {
  auto& group = all.group;
  run_threads(
      group.size(),
      [&](int rank) {
        f(all[rank]);
        all[rank].go_on();
        group.leave(rank);
      },
      [&](int rank, const char* what) {
        group.end_rank(rank, (message() << " failed: " << what).str());
        group.leave(rank);
      },
      [&] { return group.culprit(); });
  if (group.failed()) return;  // every rank has had its exception, and dealt with it
  group.check_same_calls();
  group.check();
}

}  // namespace tutti::detail
