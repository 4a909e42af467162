// SPDX-License-Identifier: BSL-1.0
#pragma once

// What tests of the rendezvous share: memory to hand out, ranks that are threads or processes, and sockets of
// strangers.

#include <tutti/transport/processes/rendezvous.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/outcome.hpp"
#include "descriptors.hpp"

namespace test {

using tutti::detail::descriptor_owner;
using tutti::detail::rendezvous_hello;
using tutti::detail::rendezvous_note;
using tutti::detail::rendezvous_options;

/// A name that no other test, and no other run of this one, has.
inline std::string new_job() {
  static std::atomic<int> count{0};
  return "test " + std::to_string(getpid()) + "." + std::to_string(++count);
}

inline rendezvous_options for_ever() {
  rendezvous_options options;
  options.farewell = std::chrono::nanoseconds::max();
  options.limit = std::chrono::nanoseconds::max();
  return options;
}
inline rendezvous_options within(std::chrono::nanoseconds limit) {
  rendezvous_options options;
  options.limit = limit;
  return options;
}

inline descriptor_owner memory() {
  descriptor_owner made(memfd_create("test", MFD_CLOEXEC));
  REQUIRE(made);
  return made;
}

/// Whether both are the same memory, and the second is not handed on to other programs.
inline bool handed_over(const descriptor_owner& from, const descriptor_owner& to) {
  struct stat a {};
  struct stat b {};
  return fstat(from.get(), &a) == 0 && fstat(to.get(), &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev &&
         from.get() != to.get() && (fcntl(to.get(), F_GETFD) & FD_CLOEXEC) != 0;
}

/// Threads, and how each ended.
class crew {
 public:
  template <class F>
  void start(F&& work) {
    outcome& kept = ended_.emplace_back();
    threads_.emplace_back([&kept, work = std::forward<F>(work)]() mutable { kept = outcome_of(work); });
  }
  /// A rank that attaches and says whether it got `from`.
  void start_rank(int rank, int size, const std::string& job, const rendezvous_options& options,
                  const descriptor_owner& from) {
    start([=, &from] {
      const descriptor_owner got = share_descriptor(rank, size, job, rank == 0 ? from.get() : -1, options, [](int) {});
      if (rank != 0 && !handed_over(from, got)) throw std::runtime_error("another descriptor");
    });
  }
  const std::deque<outcome>& join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    return ended_;
  }

 private:
  std::deque<outcome> ended_;
  std::vector<std::thread> threads_;
};

inline void all_well(crew& ranks) {
  for (const outcome& o : ranks.join()) CHECK(o == outcome{});
}
inline void all_failed(crew& ranks, const std::string& kind, int peer, const std::vector<std::string>& texts) {
  check_all_failed(ranks.join(), kind, peer, texts);
}

/// A process that runs `work` and ends with what it returns. It may start no threads.
class child {
 public:
  template <class F>
  explicit child(F&& work) : id_(fork()) {
    REQUIRE(id_ >= 0);
    if (id_ != 0) return;
    alarm(60);  // a test that hangs has failed
    int result = 99;
    try {
      result = work();
    } catch (...) {
    }
    _exit(result);
  }
  child(child&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  ~child() {
    if (id_ <= 0) return;
    kill(SIGKILL);
    wait();
  }
  pid_t id() const { return id_; }
  void kill(int signal) const { ::kill(id_, signal); }
  /// What it returned, or minus the signal that ended it.
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t id_;
};

/// A socket connected to whoever holds the name of the job.
class raw_socket {
 public:
  explicit raw_socket(const std::string& job, uid_t user = geteuid()) {
    const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, user), user);
    for (int refused = EAGAIN; refused != 0; sched_yield()) {  // not there yet, or too many at once
      socket_ = tutti::detail::make_rendezvous_socket();
      refused = connect(socket_.get(), name.address(), name.size()) == 0 ? 0 : errno;
      if (refused != 0 && refused != ECONNREFUSED && refused != EAGAIN) throw std::runtime_error("cannot connect");
    }
  }
  /// False if the other end has closed.
  bool say(const void* bytes, std::size_t size) const {
    return send(socket_.get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool say(const rendezvous_hello& hello) const { return say(&hello, sizeof hello); }
  bool say(rendezvous_note::what kind) const {
    rendezvous_note note;
    note.kind = kind;
    return say(&note, sizeof note);
  }
  /// Waits for the next message; its kind is zero if the other end has closed.
  rendezvous_note hear() const {
    for (;;) {
      rendezvous_note note;
      const auto r = tutti::detail::receive_packet(socket_, note);
      if (r.how == tutti::detail::received::result::closed) return {};
      if (r.how == tutti::detail::received::result::packet) return note;
      pollfd one{socket_.get(), POLLIN, 0};
      tutti::detail::wait_for_sockets(&one, 1, tutti::detail::time_limit::never());
    }
  }
  bool closed() const { return hear().kind == rendezvous_note::what{}; }

 private:
  descriptor_owner socket_;
};

/// What a rank of that job says first.
inline rendezvous_hello hello_of(const std::string& job, int rank, int size) {
  rendezvous_hello hello;
  hello.job = tutti::detail::job_hash::of(job, geteuid());
  hello.rank = rank;
  hello.size = size;
  return hello;
}

}  // namespace test
