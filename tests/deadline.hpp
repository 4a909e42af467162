// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// A test that hangs has failed: if this object lives longer than the limit (four times the limit under a sanitizer),
/// the program says which test it was and aborts.
class deadline {
 public:
  explicit deadline(std::chrono::seconds limit, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : watch_([this, limit = sanitized ? 4 * limit : limit, file, line] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, limit, [this] { return over_; })) return;
          std::fprintf(stderr, "%s:%d: the test did not end within %lld s\n", file, line,
                       static_cast<long long>(limit.count()));
          std::abort();
        }) {}
  deadline(const deadline&) = delete;
  deadline& operator=(const deadline&) = delete;
  ~deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    watch_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watch_;
};

}  // namespace test
