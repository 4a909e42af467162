// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>

#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace tutti::detail {

/// Closes descriptors in every process that fork() makes of this one, before it returns there: a child that goes on
/// without exec, such as one that loads data, would keep the connections of a rank open, and hide from the others that
/// the rank has died. What vfork, posix_spawn or a bare clone make is not covered: exec closes all of them.
///
/// In a child nothing but close(2) is called, since other threads may have held any lock when it was made.
class fork_closer {
 public:
  /// Of at most so many, none to begin with.
  explicit fork_closer(std::size_t most) : descriptors_(most, "descriptors that children do not keep") {
    for (std::atomic<int>& each : descriptors_) each.store(none, std::memory_order_relaxed);
    static const int listening = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, &fork_closer::in_child);
    static_cast<void>(listening);  // where there is no memory for that children keep them
    const std::lock_guard lock(mutex);
    next_ = first;
    first = this;
  }
  fork_closer(const fork_closer&) = delete;
  fork_closer& operator=(const fork_closer&) = delete;
  ~fork_closer() {
    const std::lock_guard lock(mutex);
    fork_closer** place = &first;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
  }

  /// That one belongs here, until `clear()`, and stays open till then.
  void add(std::size_t place, int descriptor) noexcept {
    descriptors_[place].store(descriptor, std::memory_order_relaxed);
  }
  /// To be called before they are closed: their numbers may then be those of others.
  void clear() noexcept {
    for (std::atomic<int>& each : descriptors_) each.store(none, std::memory_order_relaxed);
  }

 private:
  static constexpr int none = -1;

  static void in_child() noexcept {
    for (fork_closer* each = first; each != nullptr; each = each->next_) {
      for (std::atomic<int>& descriptor : each->descriptors_) {
        const int open = descriptor.exchange(none, std::memory_order_relaxed);
        if (open != none) ::close(open);
      }
    }
    mutex.unlock();
  }

  static inline std::mutex mutex;
  static inline fork_closer* first = nullptr;

  owned_array<std::atomic<int>> descriptors_;
  fork_closer* next_ = nullptr;
};

}  // namespace tutti::detail
