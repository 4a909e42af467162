// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::detail {

/// The ports of a rank in one direction: the times from which they are free, as a heap with the earliest on top.
class port_heap {
 public:
  port_heap(double* times, int ports) : times_{times}, ports_{ports} {}

  double earliest() const { return times_[0]; }

  /// The earliest port is busy until `until`, which is not before it was free.
  void occupy(double until) {
    int hole = 0;
    for (int child = 1; child < ports_; child = 2 * hole + 1) {
      if (child + 1 < ports_ && times_[child + 1] < times_[child]) ++child;
      if (times_[child] >= until) break;
      times_[hole] = times_[child];
      hole = child;
    }
    times_[hole] = until;
  }

 private:
  double* times_;
  int ports_;
};

}  // namespace tutti::detail
