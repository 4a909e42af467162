// SPDX-License-Identifier: BSL-1.0
#pragma once

// What tests need that fork: deadlines without a thread, children that do not outlive their test, and counts of what
// may be left behind.

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "descriptors.hpp"

namespace test {

/// A test that takes longer than this many seconds ends the program, saying which it was. Without a thread, so that the
/// test may fork.
class alarm_limit {
 public:
  explicit alarm_limit(unsigned seconds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    std::snprintf(text_, sizeof text_, "%s:%d: the test did not end within %u s\n", file, line, seconds);
    signal(SIGALRM, [](int) {
      if (write(STDERR_FILENO, text_, std::strlen(text_)) > 0) _exit(124);
      _exit(124);
    });
    alarm(seconds);
  }
  alarm_limit(const alarm_limit&) = delete;
  alarm_limit& operator=(const alarm_limit&) = delete;
  ~alarm_limit() {
    alarm(0);
    signal(SIGALRM, SIG_DFL);
  }

 private:
  static inline char text_[512];
};

/// Whether this process has any child, running or to be waited for.
inline bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/// Waits until a child of this process has ended, and leaves it a zombie.
inline void await_zombie(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0)
    if (errno != EINTR) std::abort();
}

/// Waits for a child of this process: its status as of waitpid(2).
inline int await_end(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) std::abort();
  return status;
}

/// A pipe: what one process says to another. `close_writer` so that the reader sees when all others have ended.
class channel {
 public:
  channel() {
    if (pipe2(ends_, O_CLOEXEC) != 0) std::abort();
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  ~channel() {
    close(ends_[0]);
    close_writer();
  }
  int writer() const { return ends_[1]; }
  int reader() const { return ends_[0]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void say(const void* data, std::size_t size) const {
    if (write(ends_[1], data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  void say(const std::string& text) const { say(text.data(), text.size()); }
  template <class T>
  void say_value(T value) const {
    say(&value, sizeof value);
  }
  /// The next value that somebody says; aborts if nobody is left to say it.
  template <class T>
  T hear() const {
    T value{};
    std::size_t got = 0;
    while (got < sizeof value) {
      const ssize_t n = read(ends_[0], reinterpret_cast<char*>(&value) + got, sizeof value - got);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) std::abort();
      got += static_cast<std::size_t>(n);
    }
    return value;
  }
  /// Waits till somebody says a byte, or nobody is left to.
  void wait() const {
    char byte = 0;
    while (read(ends_[0], &byte, 1) < 0 && errno == EINTR) {
    }
  }
  /// All that is said until nobody is left.
  std::string hear_all() {
    close_writer();
    std::string result;
    char part[4096];
    for (;;) {
      const ssize_t n = read(ends_[0], part, sizeof part);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return result;
      result.append(part, static_cast<std::size_t>(n));
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Signals end this process as they end others, not with the report that doctest makes of them.
inline void take_signals_by_default() {
  for (const int number : {SIGABRT, SIGFPE, SIGILL, SIGINT, SIGSEGV, SIGTERM}) signal(number, SIG_DFL);
}

/// A child that does something and exits with what it returns; killed and waited for in the end.
class child_process {
 public:
  template <class F>
  explicit child_process(F&& f) {
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) run(f);
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    await_end(pid_);
  }
  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }
  /// Its status, once it has ended.
  int end() {
    const int status = await_end(pid_);
    pid_ = 0;
    return status;
  }
  /// What it returned, or -1 if something else ended it.
  int result() {
    const int status = end();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  template <class F>
  [[noreturn]] static void run(F& f) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_signals_by_default();
    const int result = f();
    std::fflush(nullptr);
    _exit(result);
  }
  pid_t pid_ = 0;
};

/// Whether the kernel, and the sandbox if there is one, gives pidfds. (valgrind knows nothing of them.)
inline bool pidfds_to_be_had() {
  const long number = syscall(SYS_pidfd_open, getpid(), 0);
  if (number >= 0) close(static_cast<int>(number));
  return number >= 0;
}

/// Does nothing until it is killed.
[[noreturn]] inline void sleep_for_ever() {
  for (;;) pause();
}

/// From now on the kernel refuses this process and its children a system call, with that error. False where it does not
/// let itself be told.
inline bool refuse_system_call(long number, int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// From now on this process may have that many descriptors, or as many as it may allow itself.
inline void limit_descriptors(int most = -1) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = most < 0 ? limit.rlim_max : static_cast<rlim_t>(most);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
}

}  // namespace test
