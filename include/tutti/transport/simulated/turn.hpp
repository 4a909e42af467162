// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <mutex>

namespace tutti::detail {

/// A rank's turn: only the rank that has it runs, and gives the next one its turn before it waits for its own.
class turn {
 public:
  void give() {
    {
      const std::lock_guard lock(mutex_);
      mine_ = true;
    }
    given_.notify_one();
  }
  void await() {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [this] { return mine_; });
    mine_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  bool mine_ = false;
};

}  // namespace tutti::detail
