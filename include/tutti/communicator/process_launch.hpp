// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks that are processes: forked from this one, and waited for.

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/process.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>

namespace tutti::detail {

/// How the process of a rank ended.
struct process_end {
  int rank;
  int code;    ///< what it exited with; 0: its body returned; -1: not known, since something else took notice first
  int signal;  ///< what killed it, or 0

  bool well() const noexcept { return code == 0 && signal == 0; }
};

/// "rank 2 exited with code 3", "rank 1 was killed by signal 9 (Killed)".
[[gnu::cold]] inline std::string describe(const process_end& end) {
  message text;
  text << "rank " << end.rank;
  if (end.signal != 0) {
    text << " was killed by signal " << end.signal;
    if (const char* const name = strsignal(end.signal)) text << " (" << name << ")";
  } else if (end.code < 0) {
    text << " ended early; how is not known, since something else in this process waited for it";
  } else {
    text << " exited with code " << end.code;
  }
  return text;
}

/// While one of these lives, the system keeps for us how children end, even if the program ignores SIGCHLD. (It then
/// takes the default action; children of the program's own that end meanwhile wait until the program waits for them.)
/// One that handles SIGCHLD keeps its handler.
class kept_child_ends {
 public:
  kept_child_ends() noexcept {
    const lock locked;
    if (users++ != 0) return;
    struct sigaction now {};
    sigaction(SIGCHLD, nullptr, &now);
    changed = now.sa_handler == SIG_IGN || (now.sa_flags & SA_NOCLDWAIT) != 0;
    if (!changed) return;
    before = now;
    if (now.sa_handler == SIG_IGN) now.sa_handler = SIG_DFL;
    now.sa_flags &= ~SA_NOCLDWAIT;
    sigaction(SIGCHLD, &now, nullptr);
  }
  kept_child_ends(const kept_child_ends&) = delete;
  kept_child_ends& operator=(const kept_child_ends&) = delete;
  ~kept_child_ends() {
    const lock locked;
    if (--users == 0 && changed) sigaction(SIGCHLD, &before, nullptr);
  }
  /// In a child, which has none of this going on: as the program had it.
  static void in_child() noexcept {
    if (users != 0 && changed) sigaction(SIGCHLD, &before, nullptr);
    users = 0;
    held.store(false, std::memory_order_relaxed);  // another thread of the parent may have held it
  }

 private:
  // A mutex could not be taken from a thread that the child does not have.
  struct lock {
    lock() noexcept {
      while (held.exchange(true, std::memory_order_acquire)) sched_yield();
    }
    lock(const lock&) = delete;
    lock& operator=(const lock&) = delete;
    ~lock() { held.store(false, std::memory_order_release); }
  };
  static inline std::atomic<bool> held{false};
  static inline int users = 0;
  static inline bool changed = false;
  static inline struct sigaction before {};
};

/// The processes of the ranks, as their parent has them. What is left of them in the end is killed and waited for.
class forked_processes {
 public:
  /// Throws usage_error if there are to be none, resource_error.
  explicit forked_processes(int size) : children_(static_cast<std::size_t>(checked(size))), parent_(getpid()) {
    void* const memory = mmap(nullptr, children_.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw resource_error(message() << "run_processes: the system refused " << size
                                     << " bytes: " << std::generic_category().message(errno));
    ends_ = static_cast<own_end*>(memory);
    ready_.reset(epoll_create1(EPOLL_CLOEXEC));
  }
  forked_processes(const forked_processes&) = delete;
  forked_processes& operator=(const forked_processes&) = delete;
  ~forked_processes() {
    for (child& c : children_) {
      if (c.running) put_down(c);
    }
    for (child& c : children_) {
      process_end unused{};
      if (c.running) take(c, 0, unused);
    }
    munmap(ends_, children_.size());
  }

  /// Forks the process of that rank; true in the child. Throws resource_error in the parent.
  bool start(int rank) {
    child& c = at(rank);
    const pid_t pid = fork();
    if (pid < 0) {
      const int refused = errno;
      throw resource_error(message() << "run_processes: the system refused the process of rank " << rank << " of "
                                     << children_.size() << ": " << std::generic_category().message(refused));
    }
    if (pid == 0) {
      become_child();
      return true;
    }
    c.pid = pid;
    c.running = true;
    ++running_;
    c.pidfd.reset(open_pidfd(pid));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(rank);
    if (c.pidfd && epoll_ctl(ready_.get(), EPOLL_CTL_ADD, c.pidfd.get(), &event) == 0) {
      c.notified = true;
    } else {
      ++asked_;
    }
    return false;
  }

  /// In the child: ends it. What its body came to is kept also where the parent cannot wait for it.
  [[noreturn]] void finish(int rank, bool well, pid_t self) noexcept {
    std::fflush(nullptr);
    if (getpid() == self)  // and not a process that the body has forked and let return
      std::atomic_ref(ends_[rank]).store(well ? own_end::well : own_end::failed, std::memory_order_release);
    _exit(well ? 0 : 1);
  }

  int running() const noexcept { return running_; }

  /// Waits until one has ended, takes notice of it and says how. In the order in which they end: that in which an epoll
  /// lists its descriptors; those without one are asked every few milliseconds.
  process_end next() {
    for (;;) {
      process_end end{};
      epoll_event event{};
      const int ready = running_ == asked_ ? nap() : epoll_wait(ready_.get(), &event, 1, asked_ == 0 ? -1 : nap_ms);
      if (ready > 0) {
        child& c = at(static_cast<int>(event.data.u32));
        if (c.running && take(c, 0, end)) return end;
      } else if (ready < 0 && errno != EINTR) {  // the program has closed it
        for (child& c : children_) ask(c);
      }
      if (asked_ == 0) continue;
      for (child& c : children_) {
        if (c.running && !c.notified && take(c, WNOHANG, end)) return end;
      }
    }
  }

 private:
  enum class own_end : unsigned char { none, well, failed };
  struct child {
    pid_t pid = 0;
    descriptor_owner pidfd;
    bool running = false;
    bool notified = false;  // the epoll says when it has ended
  };
  static constexpr int nap_ms = 5;

  static int checked(int size) {
    if (size < 1)
      throw usage_error(message() << "run_processes: number of ranks is " << size << ", must be at least 1");
    return size;
  }
  child& at(int rank) { return children_[static_cast<std::size_t>(rank)]; }
  static int nap() noexcept {
    timespec span{};
    span.tv_nsec = nap_ms * 1'000'000L;
    nanosleep(&span, nullptr);  // a signal cuts it short, which may well be the end of a child
    return 0;
  }

  void become_child() noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before that. (It is 0 where the parent is outside of this pid namespace.)
    const pid_t parent = getppid();
    if (parent != parent_ && parent != 0) kill(getpid(), SIGKILL);
    kept_child_ends::in_child();
    for (child& c : children_) {
      c.pidfd.reset();
      c.running = false;
    }
    ready_.reset();
  }

  /// Kills it, and no other that has got its number since.
  static void put_down(const child& c) noexcept {
    if (c.pidfd && (signal_pidfd(c.pidfd.get(), SIGKILL) == 0 || errno == ESRCH)) return;
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(c.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0) kill(c.pid, SIGKILL);
  }

  /// From now on it is asked whether it has ended.
  void ask(child& c) noexcept {
    if (c.running && c.notified) ++asked_;
    c.notified = false;
  }

  /// Waits for that child and no other, and says how it ended; false if it has not (with WNOHANG).
  bool take(child& c, int options, process_end& end) noexcept {
    siginfo_t info{};
    const bool known = wait_for(c, options, info);
    if (known && info.si_pid == 0) return false;
    const int rank = static_cast<int>(&c - children_.data());
    end = {rank, -1, 0};
    if (!known) {  // something else has waited for it
      const own_end own = std::atomic_ref(ends_[rank]).load(std::memory_order_acquire);
      if (own != own_end::none) end.code = own == own_end::well ? 0 : 1;
    } else if (info.si_code == CLD_EXITED) {
      end.code = info.si_status;
    } else {
      end.code = 0;
      end.signal = info.si_status;
    }
    // Closing it is not enough where another thread's fork has made a copy of it.
    if (c.notified) epoll_ctl(ready_.get(), EPOLL_CTL_DEL, c.pidfd.get(), nullptr);
    c.pidfd.reset();
    if (!c.notified) --asked_;
    c.running = false;
    --running_;
    return true;
  }
  /// By the descriptor if there is one (Linux 5.4): its number may be another child's since something else has waited.
  static bool wait_for(const child& c, int options, siginfo_t& info) noexcept {
    constexpr auto by_pidfd = static_cast<idtype_t>(3);
    int failed = -1;
    if (c.pidfd) {
      do failed = waitid(by_pidfd, static_cast<id_t>(c.pidfd.get()), &info, WEXITED | options);
      while (failed != 0 && errno == EINTR);
      if (failed == 0 || errno == ECHILD) return failed == 0;
    }
    do failed = waitid(P_PID, static_cast<id_t>(c.pid), &info, WEXITED | options);
    while (failed != 0 && errno == EINTR);
    return failed == 0;
  }

  owned_array<child> children_;
  own_end* ends_ = nullptr;  // of each rank, shared with it
  descriptor_owner ready_;
  pid_t parent_;
  int running_ = 0;
  int asked_ = 0;  // running, and the epoll does not say when they end
};

/// What the child does: it never returns, nor does an exception leave it.
template <class Body, class Failed>
[[noreturn]] void run_child(forked_processes& all, int rank, Body& body, Failed& failed) noexcept {
  const pid_t self = getpid();
  TUTTI_FAULT_RANK(rank);
  bool well = false;
  try {
    try {
      TUTTI_FAULT_POINT("launch.child");
      body(rank);
      well = true;
    } catch (const std::exception& e) {
      failed(rank, e.what());
    } catch (...) {
      failed(rank, "an exception that is no std::exception");
    }
  } catch (...) {  // `failed` itself, which cannot tell anybody else
  }
  all.finish(rank, well, self);
}

/// Runs `body(rank)` in a process of its own for each of `size` ranks, forked from this one, and returns when all have
/// ended. A body that throws makes its process call `failed(rank, what)` there and exit with code 1; one that returns
/// makes it exit with code 0. Neither runs what was left for the end of the program (destructors of static objects,
/// atexit), which is its parent's business; C streams are flushed before the fork and in the end, but std::cout only
/// where it is synchronised with them, as it is unless told otherwise.
/// `ended(process_end)` is told here of each end, in their order, while the others may still wait for the dead. If it
/// throws, or the system refuses a process (resource_error), those that run are killed and waited for first.
/// If this process dies the kernel kills them too. So it does if the calling thread ends, which is in here till then.
/// Signals are the program's: they are neither blocked nor handled here, only not ignored (see kept_child_ends). Waits
/// for its own children alone. Of threads, each child has the calling one only: locks that others hold stay locked.
template <class Body, class Failed, class Ended>
void run_forked(int size, Body&& body, Failed&& failed, Ended&& ended) {
  const kept_child_ends kept;
  forked_processes all(size);
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    if (all.start(rank)) run_child(all, rank, body, failed);
  }
  while (all.running() != 0) ended(all.next());
}

}  // namespace tutti::detail
