// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// The memory of another process, as the kernel reads it for us (Linux process_vm_readv): one copy where two are needed
/// otherwise. Not everywhere allowed: it takes the right to trace the other process.
class peer_memory {
 public:
  /// So many bytes from an address there; false, with errno, if not all could be read.
  static bool read(pid_t process, std::byte* to, std::uint64_t from, std::size_t bytes) noexcept {
    for (std::size_t done = 0; done < bytes;) {
      const iovec here{to + done, bytes - done};
      const iovec there{std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(from + done)), bytes - done};
      const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }

  /// Allows every process of the same user to read this one's, where the system asks for it (Yama).
  static void allow() noexcept {
#if defined(PR_SET_PTRACER)
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  }

  /// Whether it is worth while: the kernel copies in less than the time of three copies of our own, here between two
  /// places of this process. Two copies between processors would take that long. Measured once.
  static bool fast() noexcept {
    static const bool result = measure();
    return result && !switched_off;
  }
  /// For tests and measurements: this process reads nobody's memory.
  static inline bool switched_off = false;

 private:
  static bool measure() noexcept {
    constexpr std::size_t bytes = std::size_t{1} << 18;
    auto* const from = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    if (from == MAP_FAILED) return false;
    std::byte* const to = from + bytes;
    const bool result = measure(to, from, bytes);
    ::munmap(from, 2 * bytes);
    return result;
  }
  static bool measure(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memset(to, 1, bytes);
    using clock = std::chrono::steady_clock;
    auto by_kernel = clock::duration::max();
    auto by_hand = clock::duration::max();
    for (int turn = 0; turn < 5; ++turn) {
      const auto begin = clock::now();
      if (!read(::getpid(), to, reinterpret_cast<std::uintptr_t>(from), bytes)) return false;
      const auto middle = clock::now();
      std::memcpy(to, from, bytes);
      asm volatile("" : : "r"(to) : "memory");
      const auto end = clock::now();
      if (middle - begin < by_kernel) by_kernel = middle - begin;
      if (end - middle < by_hand) by_hand = end - middle;
    }
    return by_kernel < 3 * by_hand;
  }
};

}  // namespace tutti::detail
