// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

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
};

}  // namespace tutti::detail
