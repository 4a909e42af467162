// SPDX-License-Identifier: BSL-1.0

// The processes of a run: how they begin, that every end is told for what it is, and that nothing is left of them.

#define TUTTI_FAULT_POINTS
#include <tutti/communicator/process_launch.hpp>

#include "child_process.hpp"

#include <doctest/doctest.h>

#include <sys/time.h>
#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;
using tutti::detail::describe;
using tutti::detail::process_end;
using tutti::detail::run_forked;

namespace {

const auto ignore = [](int, const char*) {};
constexpr int no_seccomp = 99;

/// All ends, by rank.
struct ends {
  std::vector<process_end> in_order;

  void operator()(process_end end) { in_order.push_back(end); }
  process_end of(int rank) const {
    for (const process_end& end : in_order)
      if (end.rank == rank) return end;
    return {rank, -2, -2};
  }
  std::string text(int rank) const { return describe(of(rank)); }
};

/// The ways in which a body can end, and what is said of each.
struct way {
  void (*body)(int rank);
  const char* text;
  bool told = false;  // to `failed`
};
const way ways[] = {
    {[](int) {}, "exited with code 0"},
    {[](int rank) { throw std::runtime_error("rank " + std::to_string(rank) + " is unwell"); }, "exited with code 1",
     true},
    {[](int) { throw 42; }, "exited with code 1", true},
    {[](int) { _exit(0); }, "exited with code 0"},
    {[](int) { _exit(3); }, "exited with code 3"},
    {[](int) { _exit(255); }, "exited with code 255"},
    {[](int) { std::exit(4); }, "exited with code 4"},
    {[](int) { std::quick_exit(5); }, "exited with code 5"},
    {[](int) { std::abort(); }, "was killed by signal 6 (Aborted)"},
    {[](int) { std::set_terminate(std::abort), std::terminate(); }, "was killed by signal 6 (Aborted)"},
    {[](int) { raise(SIGKILL); }, "was killed by signal 9 (Killed)"},
    {[](int) { raise(SIGTERM); }, "was killed by signal 15 (Terminated)"},
    {[](int) { raise(SIGINT); }, "was killed by signal 2 (Interrupt)"},
    {[](int) { raise(SIGSEGV); }, "was killed by signal 11 (Segmentation fault)"},
};
constexpr int way_count = sizeof ways / sizeof *ways;

/// Ends ranks in all ways at once. Empty if each was told for what it was, or else what was not.
std::string objection_to_ways() {
  channel failures;
  ends all;
  run_forked(
      way_count,
      [](int rank) {
        take_signals_by_default();
        limit_descriptors();  // sanitizers open some of their own
        ways[rank].body(rank);
      },
      [&](int rank, const char* what) { failures.say(std::to_string(rank) + ": " + what + "; "); }, all);
  std::string wrong;
  if (all.in_order.size() != static_cast<std::size_t>(way_count))
    wrong += std::to_string(all.in_order.size()) + " ends; ";
  for (int rank = 0; rank < way_count; ++rank) {
    const std::string expected = "rank " + std::to_string(rank) + " " + ways[rank].text;
    if (all.text(rank) != expected) wrong += all.text(rank) + ", not " + expected + "; ";
  }
  const std::string told = failures.hear_all();
  const std::string first = "1: rank 1 is unwell; ";
  const std::string second = "2: an exception that is no std::exception; ";
  if (told != first + second && told != second + first) wrong += "told: " + told;
  if (has_children()) wrong += "children are left; ";
  return wrong;
}

int report(const std::string& wrong) {
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  return 1;
}

void check_child(child_process& child) {
  const int result = child.result();
  if (result == no_seccomp) {
    MESSAGE("no seccomp here");
    return;
  }
  CHECK(result == 0);
}

/// Looks at the end and at descriptors and children, as it was before.
struct nothing_left {
  int before = open_descriptors();
  ~nothing_left() {
    CHECK(open_descriptors() == before);
    CHECK_FALSE(has_children());
  }
};

struct identity {
  int rank;
  pid_t pid, parent;
  int descriptors;
};

}  // namespace

TEST_CASE("each rank is a child of this process, with the descriptors that this had, and is told of when it ends") {
  const alarm_limit limit(60);
  const nothing_left same;
  constexpr int size = 64;
  const channel told;
  const int descriptors = open_descriptors();
  ends all;
  run_forked(
      size,
      [&](int rank) {
        told.say_value(identity{rank, getpid(), getppid(), open_descriptors()});
      },
      ignore, all);
  bool seen[size] = {};
  std::vector<pid_t> pids;
  for (int i = 0; i < size; ++i) {
    const auto one = told.hear<identity>();
    REQUIRE((one.rank >= 0 && one.rank < size));
    CHECK_FALSE(seen[one.rank]);
    seen[one.rank] = true;
    CHECK(one.parent == getpid());
    CHECK(one.descriptors <= descriptors);
    pids.push_back(one.pid);
  }
  std::sort(pids.begin(), pids.end());
  CHECK(std::adjacent_find(pids.begin(), pids.end()) == pids.end());
  REQUIRE(all.in_order.size() == size);
  for (const process_end& end : all.in_order) CHECK(end.well());
}

TEST_CASE("an end is told for what it was") {
  const alarm_limit limit(60);
  const nothing_left same;
  CHECK(objection_to_ways() == "");
}

TEST_CASE("an end is told for what it was where the kernel refuses pidfds or epoll") {
  const alarm_limit limit(60);
  for (const long call : {long{SYS_pidfd_open}, long{SYS_epoll_create1}, long{SYS_epoll_ctl}, long{SYS_epoll_wait}}) {
    CAPTURE(call);
    child_process child([&] {
      if (!refuse_system_call(call, call == SYS_pidfd_open ? ENOSYS : EPERM)) return no_seccomp;
      return report(objection_to_ways());
    });
    check_child(child);
  }
}

TEST_CASE("an end is told for what it was where there are few descriptors left") {
  const alarm_limit limit(60);
  for (const int spare : {2, 3, 4, 6, 8}) {  // two are the test's own
    CAPTURE(spare);
    child_process child([&] {
      const int lowest = dup(0);
      close(lowest);
      limit_descriptors(lowest + spare);
      return report(objection_to_ways());
    });
    CHECK(child.result() == 0);
  }
}

TEST_CASE("an end is told for what it was to a program that ignores SIGCHLD, and it goes on ignoring it") {
  const alarm_limit limit(60);
  for (const bool flag : {false, true}) {
    for (const bool pidfds : {true, false}) {
      child_process child([&] {
        if (!pidfds && !refuse_system_call(SYS_pidfd_open, ENOSYS)) return no_seccomp;
        struct sigaction action {};
        action.sa_handler = flag ? SIG_DFL : SIG_IGN;
        action.sa_flags = flag ? SA_NOCLDWAIT : 0;
        sigaction(SIGCHLD, &action, nullptr);
        const auto as_it_was = [&] {
          struct sigaction now {};
          sigaction(SIGCHLD, nullptr, &now);
          return now.sa_handler == action.sa_handler && (now.sa_flags & SA_NOCLDWAIT) == action.sa_flags;
        };
        if (const int wrong = report(objection_to_ways())) return wrong;
        if (!as_it_was()) return report("the parent's action has changed");
        ends all;
        run_forked(
            2, [&](int) { _exit(as_it_was() ? 7 : 8); }, ignore, all);
        if (all.of(0).code != 7 || all.of(1).code != 7) return report("a child's action has changed");
        return 0;
      });
      check_child(child);
    }
  }
}

TEST_CASE("ends are told in their order, while others still run") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  const nothing_left same;
  const channel pids;
  const channel go[4];
  pid_t pid_of[4] = {};
  std::vector<int> order;
  const auto let_end = [&](int rank) {
    go[rank].say_value('x');
    await_zombie(pid_of[rank]);
  };
  run_forked(
      4,
      [&](int rank) {
        pids.say_value(identity{rank, getpid(), 0, 0});
        if (rank != 2) go[rank].wait();
      },
      ignore,
      [&](process_end end) {
        order.push_back(end.rank);
        if (end.rank != 2) return;
        for (int i = 0; i < 4; ++i) {
          const auto one = pids.hear<identity>();
          pid_of[one.rank] = one.pid;
        }
        let_end(3);
        let_end(0);
        let_end(1);
      });
  CHECK(order == std::vector<int>{2, 3, 0, 1});
}

TEST_CASE("a rank that is stopped has not ended") {
  const alarm_limit limit(60);
  for (const bool pidfds : {true, false}) {
    child_process child([&] {
      if (!pidfds && !refuse_system_call(SYS_pidfd_open, ENOSYS)) return no_seccomp;
      const channel stopped;
      const channel seen;
      ends all;
      run_forked(
          2,
          [&](int rank) {
            if (rank == 0) {
              stopped.say_value(getpid());
              raise(SIGSTOP);
              _exit(6);
            }
            const auto pid = stopped.hear<pid_t>();
            tutti::detail::process_status status;
            while (tutti::detail::read_status(pid, status) && status.state != 'T') sched_yield();
            seen.say_value(pid);
          },
          ignore,
          [&](process_end end) {
            all(end);
            if (all.in_order.size() == 1) kill(seen.hear<pid_t>(), SIGCONT);
          });
      if (all.in_order.size() != 2) return report("not two ends");
      if (all.in_order[0].rank != 1) return report("the one that was stopped was told first");
      if (all.text(0) != "rank 0 exited with code 6") return report(all.text(0));
      return report(all.of(1).well() ? "" : all.text(1));
    });
    check_child(child);
  }
}

TEST_CASE("a rank that has ended is waited for no more, though a copy of its descriptor is left") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  const nothing_left same;
  const auto waited_for = [] {
    int result = 0;
    for (int number = 0; number < 1024; ++number) {
      std::FILE* const info = std::fopen(("/proc/self/fdinfo/" + std::to_string(number)).c_str(), "r");
      if (info == nullptr) continue;
      char line[256];
      while (std::fgets(line, sizeof line, info) != nullptr) result += std::strncmp(line, "tfd:", 4) == 0;
      std::fclose(info);
    }
    return result;
  };
  const channel go;
  std::vector<int> counts;
  std::unique_ptr<child_process> copy;
  run_forked(
      3,
      [&](int rank) {
        if (rank != 0) go.wait();
      },
      ignore,
      [&](process_end) {
        counts.push_back(waited_for());
        if (!copy) {
          copy = std::make_unique<child_process>([] {
            sleep_for_ever();
            return 0;
          });
          go.say("xx");
        }
      });
  CHECK(counts == std::vector<int>{2, 1, 0});
  copy.reset();
}

TEST_CASE("an exception that the failure itself brings about leaves the child no farther") {
  const alarm_limit limit(60);
  const nothing_left same;
  ends all;
  run_forked(
      2, [](int) { throw 1; }, [](int, const char*) { throw 2; }, all);
  CHECK(all.text(0) == "rank 0 exited with code 1");
  CHECK(all.text(1) == "rank 1 exited with code 1");
}

TEST_CASE("if the caller throws, those that run are killed and waited for") {
  const alarm_limit limit(60);
  const nothing_left same;
  channel alive;
  CHECK_THROWS_AS(run_forked(
                      5,
                      [](int rank) {
                        if (rank != 3) sleep_for_ever();
                      },
                      ignore, [](process_end end) { throw end.rank; }),
                  int);
  CHECK(alive.hear_all() == "");  // nobody holds it any more
}

TEST_CASE("what was printed before is printed once, and what a rank prints is not lost") {
  const alarm_limit limit(60);
  channel output;
  child_process child([&] {
    dup2(output.writer(), STDOUT_FILENO);
    std::printf("before ");
    run_forked(
        3,
        [](int rank) {
          std::printf("rank%d ", rank);
          if (rank == 1) throw 1;
          if (rank == 2) std::exit(0);
        },
        ignore, [](process_end) {});
    std::printf("after");
    return 0;
  });
  CHECK(child.result() == 0);
  const std::string text = output.hear_all();
  CAPTURE(text);
  CHECK(text.size() == std::string("before rank0 rank1 rank2 after").size());
  for (const char* part : {"before ", "rank0 ", "rank1 ", "rank2 ", "after"}) CHECK(text.find(part) != text.npos);
}

TEST_CASE("what kills the parent kills the ranks") {
  const alarm_limit limit(60);
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);  // so that the orphans come here
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGABRT}) {
    CAPTURE(signal);
    const channel pids;
    child_process parent([&] {
      run_forked(
          3,
          [&](int) {
            pids.say_value(getpid());
            sleep_for_ever();
          },
          ignore, [](process_end) {});
      return 0;
    });
    pid_t ranks[3];
    for (pid_t& pid : ranks) pid = pids.hear<pid_t>();
    parent.send(signal);
    CHECK(WTERMSIG(parent.end()) == signal);
    for (const pid_t pid : ranks) CHECK(WTERMSIG(await_end(pid)) == SIGKILL);
    CHECK_FALSE(has_children());
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("the program's own signal handlers run, and the run goes on") {
  const alarm_limit limit(60);
  child_process child([] {
    static volatile sig_atomic_t caught = 0;
    signal(SIGTERM, [](int) { caught = caught + 1; });
    ends all;
    run_forked(
        1,
        [](int) {
          kill(getppid(), SIGTERM);
          _exit(9);
        },
        ignore, all);
    return caught == 1 && all.text(0) == "rank 0 exited with code 9" ? 0 : 1;
  });
  CHECK(child.result() == 0);
}

TEST_CASE("interrupted system calls are taken up again") {
  const alarm_limit limit(60);
  for (const bool pidfds : {true, false}) {
    child_process child([&] {
      if (!pidfds && !refuse_system_call(SYS_pidfd_open, ENOSYS)) return no_seccomp;
      static volatile sig_atomic_t caught = 0;
      struct sigaction action {};
      action.sa_handler = [](int) { caught = caught + 1; };  // without SA_RESTART
      sigaction(SIGVTALRM, &action, nullptr);
      const channel go;
      ends all;
      run_forked(
          3,
          [&](int rank) {
            if (rank == 0)
              for (int i = 0; i < 200; ++i) kill(getppid(), SIGVTALRM);
            if (rank == 0) go.say("xx");
            if (rank != 0) go.wait();
            _exit(rank + 10);
          },
          ignore, all);
      for (int rank = 0; rank < 3; ++rank)
        if (all.of(rank).code != rank + 10) return report(all.text(rank));
      return caught > 0 ? 0 : report("no signal came");
    });
    check_child(child);
  }
}

TEST_CASE("children that are not ours are left alone") {
  const alarm_limit limit(60);
  for (const bool pidfds : {true, false}) {
    child_process child([&] {
      if (!pidfds && !refuse_system_call(SYS_pidfd_open, ENOSYS)) return no_seccomp;
      child_process before([] { return 21; });
      const channel go;
      child_process meanwhile([&] {
        go.wait();
        return 22;
      });
      await_zombie(before.pid());
      ends all;
      run_forked(
          2,
          [&](int rank) {
            if (rank == 0) go.say_value('x');
          },
          ignore,
          [&](process_end end) {
            if (end.rank == 0) await_zombie(meanwhile.pid());
            all(end);
          });
      if (!all.of(0).well() || !all.of(1).well()) return report("a rank did not end well");
      return before.result() == 21 && meanwhile.result() == 22 ? 0 : report("a foreign child was waited for");
    });
    check_child(child);
  }
}

TEST_CASE("a program that waits for every child takes the ends away, but does not make the run hang") {
  const alarm_limit limit(60);
  for (const bool pidfds : {true, false}) {
    child_process child([&] {
      if (!pidfds && !refuse_system_call(SYS_pidfd_open, ENOSYS)) return no_seccomp;
      signal(SIGCHLD, [](int) {
        const int kept = errno;
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        errno = kept;
      });
      ends all;
      run_forked(
          4,
          [&](int rank) {
            if (rank == 1) throw 1;
            if (rank == 2) {
              signal(SIGCHLD, SIG_DFL);
              const pid_t pid = fork();
              if (pid == 0) return;  // and all is well with it, but it is not the rank
              await_end(pid);
              _exit(3);
            }
            if (rank == 3) raise(SIGKILL);
          },
          ignore, all);
      if (all.in_order.size() != 4) return report("not every end was told");
      if (!all.of(0).well() || all.of(1).code != 1) return report(all.text(0) + ", " + all.text(1));
      // The handler may come too late.
      const std::string unknown = "ended early; how is not known, since something else in this process waited for it";
      if (all.text(2) != "rank 2 " + unknown && all.of(2).code != 3) return report(all.text(2));
      if (all.text(3) != "rank 3 " + unknown && all.of(3).signal != SIGKILL) return report(all.text(3));
      return has_children() ? report("children are left") : 0;
    });
    check_child(child);
  }
}

TEST_CASE("what the body forks may return from it") {
  const alarm_limit limit(60);
  const nothing_left same;
  ends all;
  run_forked(
      2,
      [](int) {
        const pid_t pid = fork();
        if (pid == 0) return;
        await_end(pid);
        _exit(8);
      },
      ignore, all);
  CHECK(all.of(0).code == 8);
  CHECK(all.of(1).code == 8);
}

TEST_CASE("a rank may run ranks of its own") {
  const alarm_limit limit(60);
  const nothing_left same;
  ends all;
  run_forked(
      2,
      [](int rank) {
        ends inner;
        run_forked(
            3, [&](int deeper) { _exit(rank * 10 + deeper); }, ignore, inner);
        for (int deeper = 0; deeper < 3; ++deeper)
          if (inner.of(deeper).code != rank * 10 + deeper) _exit(99);
      },
      ignore, all);
  CHECK(all.of(0).well());
  CHECK(all.of(1).well());
}

TEST_CASE("a process that the system refuses is named, and those before it are ended") {
  const alarm_limit limit(60);
  child_process child([] {
    // Root may have any number of processes; so may nobody in particular, until the limit.
    if (getuid() == 0 && (setresgid(54321, 54321, 54321) != 0 || setresuid(54321, 54321, 54321) != 0))
      return no_seccomp;
    const rlimit few{8, 8};
    setrlimit(RLIMIT_NPROC, &few);
    channel alive;
    const int descriptors = open_descriptors();
    std::string text;
    try {
      run_forked(
          50, [](int) { sleep_for_ever(); }, ignore, [](process_end) { _exit(1); });
    } catch (const tutti::resource_error& e) {
      text = e.what();
    }
    const std::string begin = "run_processes: the system refused the process of rank ";
    if (text.find(begin) == text.npos || text.find(" of 50: Resource temporarily unavailable") == text.npos)
      return report("it says: " + text);
    if (has_children()) return report("children are left");
    if (open_descriptors() != descriptors) return report("descriptors are left");
    return report(alive.hear_all());
  });
  check_child(child);
}

TEST_CASE("a fault before the body begins is told as one of the body") {
  const alarm_limit limit(60);
  const nothing_left same;
  using tutti::fault::action;
  for (const action what : {action::raise, action::kill}) {
    tutti::fault::arm({.name = "launch.child", .nth = 1, .what = what, .rank = 1});
    channel failures;
    ends all;
    run_forked(
        3, [](int) {}, [&](int rank, const char* text) { failures.say(std::to_string(rank) + ": " + text); }, all);
    tutti::fault::disarm();
    CHECK(all.of(0).well());
    CHECK(all.text(1) ==
          (what == action::kill ? "rank 1 was killed by signal 9 (Killed)" : "rank 1 exited with code 1"));
    CHECK(all.of(2).well());
    const std::string told = failures.hear_all();
    CHECK((told.find("1: fault point launch.child, hit 1") != told.npos) == (what == action::raise));
  }
}

TEST_CASE("there must be ranks") {
  const auto text = [](int size) -> std::string {
    try {
      run_forked(
          size, [](int) {}, ignore, [](process_end) {});
    } catch (const tutti::usage_error& e) {
      return e.what();
    }
    return {};
  };
  CHECK(text(0).find("run_processes: number of ranks is 0, must be at least 1") != std::string::npos);
  CHECK(text(-3).find("run_processes: number of ranks is -3, must be at least 1") != std::string::npos);
}
