// SPDX-License-Identifier: BSL-1.0
#pragma once

// Other processes of this host: which one is meant, and whether it is still there.

#include <tutti/core/descriptor.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace tutti::detail {

/// Opens a pidfd (Linux 5.3), close-on-exec as they all are; -1 and errno where there is none to be had.
inline int open_pidfd(pid_t pid) noexcept {
#if defined(SYS_pidfd_open)
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
#else
  return static_cast<int>(syscall(434, pid, 0));  // the number is the same on every architecture but Alpha
#endif
}

/// Sends a signal to the process of a pidfd, and to no other that has got its number since. Like kill(2).
inline int signal_pidfd(int pidfd, int signal) noexcept {
#if defined(SYS_pidfd_send_signal)
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
#else
  return static_cast<int>(syscall(424, pidfd, signal, nullptr, 0));
#endif
}

/// Which process: numbers are used again, but not within one tick of the clock. Lies in shared memory. All who read it
/// must see the same numbers: they share a pid namespace and a time namespace.
struct process_identity {
  std::int32_t pid;
  std::uint64_t start_time;  ///< clock ticks since boot; 0 if not known, which matches every process of that number

  friend bool operator==(const process_identity&, const process_identity&) = default;
};

/// What /proc says about a process.
struct process_status {
  char state = '?';
  int threads = 0;
  std::uint64_t start_time = 0;

  /// Nothing of it runs any more. A main thread that has left before the others is a zombie too, but not alone.
  bool ended() const noexcept { return (state == 'Z' && threads <= 1) || state == 'X' || state == 'x'; }
};

/// Takes apart a line of /proc/PID/stat; false if it is none. The second field, the name of the program in parentheses,
/// may hold blanks and parentheses itself.
inline bool parse_status(const char* line, std::size_t length, process_status& status) noexcept {
  const char* const end = line + length;
  const char* at = end;
  while (at != line && at[-1] != ')') --at;
  if (at == line) return false;
  // The blank before each field counts: what follows the name begins with that of field 3.
  process_status found;
  int field = 2;
  for (; at != end && field < 22; ++at) {
    if (*at == ' ') {
      ++field;
    } else if (field == 3) {
      found.state = *at;
    } else if (field == 20 && *at >= '0' && *at <= '9') {
      found.threads = found.threads * 10 + (*at - '0');
    }
  }
  if (field != 22 || at == end) return false;
  for (; at != end && *at >= '0' && *at <= '9'; ++at)
    found.start_time = found.start_time * 10 + static_cast<std::uint64_t>(*at - '0');
  status = found;
  return true;
}

/// Reads what /proc says about a process, or about this one if `pid` is 0. Allocates nothing. False and errno where it
/// cannot be read.
inline bool read_status(pid_t pid, process_status& status) noexcept {
  char path[40];
  if (pid == 0) {
    std::snprintf(path, sizeof path, "/proc/self/stat");
  } else {
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  }
  int number = -1;
  do number = open(path, O_RDONLY | O_CLOEXEC);
  while (number < 0 && errno == EINTR);
  if (number < 0) return false;
  char line[1024];
  std::size_t length = 0;
  int failed = 0;
  while (length < sizeof line) {
    const ssize_t got = read(number, line + length, sizeof line - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed = errno;
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  close(number);
  if (failed == 0 && !parse_status(line, length, status)) failed = EINVAL;
  errno = failed;
  return failed == 0;
}

/// This process. Read anew each time: a child after fork() is another one. The time is 0 where there is no /proc.
inline process_identity this_process() noexcept {
  process_status status;
  read_status(0, status);
  return {static_cast<std::int32_t>(getpid()), status.start_time};
}

/// Whether a process is still there.
enum class presence {
  here,
  gone,    ///< it has ended, whether or not its parent has taken notice
  unknown  ///< there is something of that number, and no way to see what
};

/// As `look_for` without a free descriptor, so that /proc cannot be read: a zombie has no working directory any more.
/// Does not see that the number is used again.
inline presence look_without_descriptor(pid_t pid) noexcept {
  char path[40];
  char target[1];
  std::snprintf(path, sizeof path, "/proc/%d/cwd", static_cast<int>(pid));
  if (readlink(path, target, sizeof target) >= 0) return presence::here;
  if (errno != ENOENT) return presence::unknown;
  // Each thread is a folder there, and so a link to it; a main thread may have left before the others.
  std::snprintf(path, sizeof path, "/proc/%d/task", static_cast<int>(pid));
  struct stat tasks {};
  if (stat(path, &tasks) == 0) return tasks.st_nlink > 3 ? presence::here : presence::gone;
  return presence::unknown;
}

/// Looks whether a process is there, by its number: five system calls, no allocation.
inline presence look_for(process_identity who) noexcept {
  if (kill(who.pid, 0) != 0 && errno == ESRCH) return presence::gone;
  process_status status;
  if (read_status(who.pid, status)) {
    const bool other = who.start_time != 0 && status.start_time != 0 && status.start_time != who.start_time;
    return other || status.ended() ? presence::gone : presence::here;
  }
  const presence seen = errno == EMFILE || errno == ENFILE ? look_without_descriptor(who.pid) : presence::unknown;
  if (seen == presence::unknown && kill(who.pid, 0) != 0 && errno == ESRCH) return presence::gone;  // just now
  return seen;
}

}  // namespace tutti::detail
