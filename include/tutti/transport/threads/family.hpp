// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>

namespace tutti::detail {

class threads_group;

/// What a rank of the whole has in common in all groups that it is in.
struct alignas(apart_bytes) threads_rank {
  doorbell bell;
  alignas(64) std::atomic<int> next_group{1};
  bool unwinding = false;  // an end of a group went while an exception passed, and nobody knows yet how far it goes
  std::string ended;       // how the rank came to its end, if it failed; what follows its number in texts
};

/// A whole and all groups that were made of it. It ends with the last of them.
struct threads_family {
  explicit threads_family(int size) : ranks(static_cast<std::size_t>(size), "the bells of the ranks") {}
  threads_rank& rank(int r) { return ranks[static_cast<std::size_t>(r)]; }

  owned_array<threads_rank> ranks;
  std::mutex mutex;                 // of all that follows, of who is in which group, and of how ranks ended
  threads_group* whole = nullptr;   // null when it has ended
  threads_group* groups = nullptr;  // the others, a list; the last made comes first
  int users = 1;
};

}  // namespace tutti::detail
