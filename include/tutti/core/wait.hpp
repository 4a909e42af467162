// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <atomic>
#include <climits>
#include <cstdint>

#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace tutti {

/// Tells the processor that this is a spin loop.
inline void cpu_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Asks for the cache line to be brought here for reading, without waiting for it. Compilers that take a function with
/// nothing but their own prefetch for one without effect leave it out.
inline void prefetch_to_read(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line);
#endif
}

/// Asks for the cache line to be brought here for writing, without waiting for it.
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// How many processors this thread may use.
inline int usable_processors() noexcept {
#if defined(__linux__)
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) return CPU_COUNT(&usable);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);  // also where there are too many for a set
  return online > 0 ? static_cast<int>(online) : 1;
}

/// How long a rank polls before it gives the processor away: for `patience`, checking every `spins` looks whether
/// waiting has become pointless; then `yields` looks with a yield between them; then it sleeps until rung.
struct wait_policy {
  int spins;
  std::chrono::nanoseconds patience;
  int yields;
  bool crowded;  // more ranks than processors

  /// For `ranks` ranks on the processors that this thread may use. Where each can have its own, a rank spins through a
  /// time slice that the system may have given to somebody else: to give way sooner would let everybody else's wait run
  /// out too. Where ranks share processors it gives way at once.
  static wait_policy for_ranks(int ranks) {
    if (ranks <= usable_processors()) return {64, std::chrono::milliseconds(8), 50, false};
    return {1, std::chrono::nanoseconds(0), 4, true};
  }
};

/// Who shares memory: threads of one process, or processes that map it.
enum class sharers : unsigned char { threads, processes };

/// A fence paid for by one side alone: `heavy()` on the rare side makes a compiler fence, `light()`, on the frequent
/// side enough (Linux membarrier, expedited). Every process of the group asks whether it is `available()` before any
/// relies on it. Where the kernel refuses, sleepers must wake by themselves.
template <sharers Among>
class basic_asymmetric_fence {
 public:
  /// Whether the kernel does it; registers the process on first use.
  static bool available() noexcept {
#if defined(__linux__)
    static const bool registered = syscall(SYS_membarrier, registration, 0, 0) == 0;
    return registered;
#else
    return false;
#endif
  }
  static void light() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
  static void heavy() noexcept {
#if defined(__linux__)
    if (available()) syscall(SYS_membarrier, barrier, 0, 0);
#endif
  }

 private:
#if defined(__linux__)
  static constexpr bool in_one = Among == sharers::threads;
  static constexpr int registration =
      in_one ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED : MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  static constexpr int barrier = in_one ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL_EXPEDITED;
#endif
};
using asymmetric_fence = basic_asymmetric_fence<sharers::threads>;

/// What a rank sleeps on. Whoever gives it something to do calls `ring()` afterwards, which costs one load while the
/// rank is awake. The sleeper calls `prepare()`, looks once more, and then either `sleep()`s or `cancel()`s.
template <sharers Among>
class basic_doorbell {
 public:
  using fence = basic_asymmetric_fence<Among>;

  void ring() noexcept {
    fence::light();
    if (asleep_.load(std::memory_order_relaxed) != 0) wake();
  }
  void wake() noexcept {
    count_.fetch_add(1, std::memory_order_release);
#if defined(__linux__)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&count_), FUTEX_WAKE | futex_flag, INT_MAX, nullptr, nullptr,
            0);
#endif
  }

  std::uint32_t prepare() noexcept {
    asleep_.store(1, std::memory_order_seq_cst);
    fence::heavy();
    return count_.load(std::memory_order_acquire);
  }
  void cancel() noexcept { asleep_.store(0, std::memory_order_relaxed); }
  /// Returns when rung since `prepare` returned `seen`, or after at most `limit`.
  void sleep(std::uint32_t seen, std::chrono::nanoseconds limit) noexcept {
    if (!fence::available() && limit > unfenced_nap) limit = unfenced_nap;
    timespec span{};
    span.tv_sec = static_cast<decltype(span.tv_sec)>(limit.count() / 1'000'000'000);
    span.tv_nsec = static_cast<decltype(span.tv_nsec)>(limit.count() % 1'000'000'000);
#if defined(__linux__)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&count_), FUTEX_WAIT | futex_flag, seen, &span, nullptr, 0);
#else
    if (count_.load(std::memory_order_acquire) == seen) nanosleep(&span, nullptr);
#endif
    cancel();
  }

 private:
#if defined(__linux__)
  static constexpr int futex_flag = Among == sharers::threads ? FUTEX_PRIVATE_FLAG : 0;
#endif
  // Without the asymmetric fence a ring can be missed; the sleeper then looks again by itself this soon.
  static constexpr std::chrono::nanoseconds unfenced_nap = std::chrono::microseconds(200);

  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint32_t> count_{0};
};
using doorbell = basic_doorbell<sharers::threads>;

}  // namespace tutti
