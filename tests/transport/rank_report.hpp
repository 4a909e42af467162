// SPDX-License-Identifier: BSL-1.0
#pragma once

// How ranks that are processes ended, as each of them tells the test in memory that they share.

#include <sys/mman.h>
#include <time.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include "communicator/outcome.hpp"

namespace test {

/// So many objects, zero to begin with, that the children of this process share with it.
template <class T>
class shared_with_children {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit shared_with_children(int count = 1) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    objects_ = static_cast<T*>(memory);
    for (int i = 0; i < count; ++i) new (objects_ + i) T{};
  }
  shared_with_children(const shared_with_children&) = delete;
  shared_with_children& operator=(const shared_with_children&) = delete;
  ~shared_with_children() { munmap(objects_, bytes_); }
  T& operator[](int i) const { return objects_[i]; }
  T* operator->() const { return objects_; }
  T& operator*() const { return *objects_; }

 private:
  std::size_t bytes_;
  T* objects_;
};

/// What happens on one rank, and others wait for: in this process, and in those that it forks.
class event {
 public:
  void set() { ++*count_; }
  void wait(int times = 1) const {
    while (count_->load() < times) std::this_thread::yield();
  }

 private:
  shared_with_children<std::atomic<int>> count_;
};

inline std::int64_t monotonic_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// What a rank tells of itself.
struct rank_report {
  std::atomic<int> steps{0};  ///< how far it came, if its function counts
  std::atomic<bool> ended{false};
  char kind[32] = {};
  char text[4096] = {};
  int peer = -1;
  std::int64_t when = 0;  ///< it threw

  void write(const outcome& o) {
    std::snprintf(kind, sizeof kind, "%s", o.kind.c_str());
    std::snprintf(text, sizeof text, "%s", o.text.c_str());
    peer = o.peer;
    ended.store(true, std::memory_order_release);
  }
  /// "died" where its function neither returned nor threw.
  outcome read() const {
    if (!ended.load(std::memory_order_acquire)) return {"died", "", -1};
    return {kind, text, peer};
  }
};

/// How `tutti::run_processes(ranks, work)` ended on each rank, and as a whole.
struct process_outcomes {
  std::vector<outcome> of;
  std::vector<int> steps;
  std::vector<std::int64_t> when;
  outcome run;

  const outcome& on(int rank) const { return of[static_cast<std::size_t>(rank)]; }
  int steps_of(int rank) const { return steps[static_cast<std::size_t>(rank)]; }
};

inline process_outcomes collected(const shared_with_children<rank_report>& reports, int ranks) {
  process_outcomes result;
  for (int rank = 0; rank < ranks; ++rank) {
    result.of.push_back(reports[rank].read());
    result.steps.push_back(reports[rank].steps.load());
    result.when.push_back(reports[rank].when);
  }
  return result;
}

}  // namespace test
