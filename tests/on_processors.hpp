// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sched.h>

namespace test {

/// Restricts this thread, and the threads and processes that it starts, to its first `count` processors while it lives.
class on_processors {
 public:
  explicit on_processors(int count) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t few;
    CPU_ZERO(&few);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < count; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &few);
    sched_setaffinity(0, sizeof few, &few);
  }
  on_processors(const on_processors&) = delete;
  on_processors& operator=(const on_processors&) = delete;
  ~on_processors() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace test
