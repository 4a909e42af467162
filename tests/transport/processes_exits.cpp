// SPDX-License-Identifier: BSL-1.0

// B1, B3, B5, B6, B8: however ranks end, nothing is left of them: no name of memory, no name of a socket, no process,
// no descriptor. And what a rank may do to itself: fork, stop, keep buffers.

#define TUTTI_FAULT_POINTS
#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <tutti/core/fault_point.hpp>

#include <doctest/doctest.h>

#include <sys/mount.h>
#include <sys/resource.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;
using namespace tutti;
using namespace std::chrono_literals;
using fault::action;

namespace {

/// The names of shared memory that may be ours.
std::set<std::string> names_of_memory() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none))
    if (const std::string name = entry.path().filename().string(); name.starts_with("tutti-")) names.insert(name);
  return names;
}

/// Whether the name under which the ranks of the job meet is there.
bool meets(const std::string& job) {
  const uid_t user = geteuid();
  const detail::rendezvous_name name(detail::job_hash::of(job, user), user);
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.ends_with(name.shown())) return true;
  return false;
}

/// While one lives, orphans of this process's children come to it; in the end it is as it was: everything that ran has
/// ended, and nothing has a name or is open. (Names of others come and go.)
class nothing_left {
 public:
  nothing_left() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  nothing_left(const nothing_left&) = delete;
  nothing_left& operator=(const nothing_left&) = delete;
  ~nothing_left() {
    while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {  // ends the test by its alarm if one does not end
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    CHECK(open_descriptors() == descriptors_);
    const auto left = [this] {
      const auto now = names_of_memory();
      return !std::includes(names_.begin(), names_.end(), now.begin(), now.end());
    };
    while (left()) sched_yield();
  }

 private:
  int descriptors_ = open_descriptors();
  std::set<std::string> names_ = names_of_memory();
};

std::string new_job() {
  static int number = 0;
  return "exits " + std::to_string(getpid()) + " " + std::to_string(++number);
}

void some_calls(process_communicator& comm) {
  std::vector<int> small(2, 1);
  allreduce(comm, small, std::plus{});
  auto shared = comm.allocate<int>(20'000);
  std::fill(shared.begin(), shared.end(), 1);
  allreduce(comm, shared, std::plus{});
  if (small[1] != comm.size() || shared[19'999] != comm.size()) throw std::logic_error("wrong result");
}

struct way {
  std::string name;
  void (*end)();
};
const std::vector<way> ways{
    {"return", [] {}},
    {"throw", [] { throw std::runtime_error("no shoes"); }},
    {"exit", [] { std::exit(3); }},
    {"_exit", [] { _exit(0); }},
    {"abort", [] { std::abort(); }},
    {"SIGINT", [] { raise(SIGINT); }},
    {"SIGTERM", [] { raise(SIGTERM); }},
    {"SIGKILL", [] { raise(SIGKILL); }},
};

}  // namespace

TEST_CASE("B1 nothing is left after a rank ends in any way, or all do") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const bool all : {false, true}) {
    for (const way& w : ways) {
      CAPTURE(w.name);
      CAPTURE(all);
      const nothing_left check;
      const auto ended = outcomes_of_processes(3, [&](process_communicator& comm, rank_report&) {
        take_signals_by_default();
        some_calls(comm);
        if (all || comm.rank() == 1) w.end();
        if (!all && w.name != "return") barrier(comm);
      });
      CHECK(ended.run.kind == (w.name == "return" ? "none" : "peer_failed"));
      CHECK_FALSE(has_children());
    }
  }
}

TEST_CASE("B1 nothing is left after the program ends in any way while its ranks work") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGABRT}) {
    for (const bool group : {false, true}) {  // as a terminal does: to the ranks too
      for (const bool memfd : {true, false}) {
        CAPTURE(signal);
        CAPTURE(group);
        CAPTURE(memfd);
        const nothing_left check;
        const channel works;
        child_process program([&] {
          setpgid(0, 0);
          if (!memfd) refuse_system_call(SYS_memfd_create, ENOSYS);
          const outcome o = outcome_of([&] {
            run_processes(3, [&](process_communicator& comm) {
              take_signals_by_default();
              some_calls(comm);
              works.say_value(comm.rank());
              for (;;) some_calls(comm);
            });
          });
          std::fprintf(stderr, "ended: %s %s\n", o.kind.c_str(), o.text.c_str());
          return 1;
        });
        for (int i = 0; i < 3; ++i) works.hear<int>();
        kill(group ? -program.pid() : program.pid(), signal);
        CHECK(WTERMSIG(program.end()) == signal);
      }
    }
  }
}

TEST_CASE("B1 nothing is left after a signal ends ranks that a launcher has started") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    for (const bool all : {true, false}) {
      CAPTURE(signal);
      CAPTURE(all);
      const nothing_left check;
      const std::string job = new_job();
      const channel works;
      const auto ended = outcomes_of_launched(
          3, job, 20s,
          [&](process_communicator& comm, rank_report&) {
            some_calls(comm);
            works.say_value(comm.rank());
            for (;;) some_calls(comm);
          },
          [&](const std::vector<pid_t>& pids) {
            for (int i = 0; i < 3; ++i) works.hear<int>();
            CHECK_FALSE(meets(job));
            for (const pid_t pid : pids)
              if (all || pid == pids[2]) kill(pid, signal);
          });
      for (int rank = 0; rank < 3; ++rank) {
        const bool killed = all || rank == 2;
        CHECK(ended.on(rank).kind == (killed ? "died" : "peer_failed"));
        if (!killed) CHECK(ended.on(rank).peer == 2);
      }
      CHECK_FALSE(meets(job));
    }
  }
}

TEST_CASE("B3 ranks that were killed while they started do not hinder the next start of the same job") {
  const alarm_limit limit(sanitized ? 240 : 120);
  const nothing_left check;
  const std::string job = new_job();
  const int times = sanitized ? 20 : 100;
  int fired = 0;
  for (int i = 0; i < times; ++i) {
    CAPTURE(i);
    const int victim = i % 3;
    fault::arm({.name = "*", .nth = static_cast<std::uint64_t>(1 + i / 3), .what = action::kill, .rank = victim});
    fault::share_with_children();
    outcomes_of_launched(
        3, job, 20s, [](process_communicator& comm, rank_report&) { some_calls(comm); },
        [&](const std::vector<pid_t>& pids) {
          await_zombie(pids[static_cast<std::size_t>(victim)]);
          for (const pid_t pid : pids) kill(pid, SIGKILL);
        });
    fired += fault::fired() ? 1 : 0;
    CHECK_FALSE(meets(job));
    fault::disarm();
    const auto again =
        outcomes_of_launched(3, job, 20s, [](process_communicator& comm, rank_report&) { some_calls(comm); });
    for (const outcome& o : again.of) CHECK(o == outcome{});
  }
  CHECK(fired == times);
  fault::share_no_more();
  fault::disarm();
}

TEST_CASE("B5 where there is too little memory every rank gets an error that says so, and no signal") {
  const alarm_limit limit(60);
  const auto limit_files = [](rlim_t bytes) {
    rlimit most{};
    getrlimit(RLIMIT_FSIZE, &most);
    most.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &most);
  };
  const nothing_left check;
  {
    // Nothing can be begun.
    child_process program([&] {
      limit_files(8192);
      const outcome o = outcome_of([] { run_processes(3, [](process_communicator&) {}); });
      return o.kind == "resource_error" && contains(o.text, "bytes needed") && contains(o.text, "RLIMIT_FSIZE") ? 0 : 1;
    });
    CHECK(program.result() == 0);
  }
  {
    // One rank asks for more than there is, and all go on.
    const auto ended = outcomes_of_processes(3, [&](process_communicator& comm, rank_report&) {
      some_calls(comm);
      if (comm.rank() == 1) {
        limit_files(1 << 20);
        const outcome o = outcome_of([&] { auto buffer = comm.allocate<char>(1 << 28); });
        if (o.kind != "resource_error" || !contains(o.text, "268435456 elements of type char"))
          throw std::logic_error(o.kind + ": " + o.text);
        limit_files(RLIM_INFINITY);
      }
      some_calls(comm);
    });
    CHECK(ended.run == outcome{});
  }
  {
    // It happens within a call, in which nobody can go on.
    const auto ended = outcomes_of_processes(3, [&](process_communicator& comm, rank_report&) {
      if (comm.rank() == 1) limit_files(1 << 16);
      std::vector<int> large(100'000, 1);
      allreduce<ring>(comm, large, std::plus{});
      barrier(comm);
    });
    CHECK(ended.on(1).kind == "resource_error");
    for (const int rank : {0, 2}) {
      CHECK(ended.on(rank).kind == "peer_failed");
      CHECK(ended.on(rank).peer == 1);
      CHECK(contains(ended.on(rank).text, "rank 1 failed in allreduce of 100000 x int"));
      CHECK(contains(ended.on(rank).text, "not enough shared memory"));
    }
    CHECK(ended.run.kind == "peer_failed");
    CHECK(contains(ended.run.text, "not enough shared memory"));
  }
}

TEST_CASE("B5 a small /dev/shm where there is no other memory gives an error, and no signal") {
  const alarm_limit limit(60);
  child_process program([] {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    if (mount("none", "/", "none", MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=2m") != 0) return 77;
    if (!refuse_system_call(SYS_memfd_create, ENOSYS)) return 77;
    const auto ended = outcomes_of_processes(3, [](process_communicator& comm, rank_report&) {
      const outcome o = outcome_of([&] { auto buffer = comm.allocate<char>(4 << 20); });
      if (o.kind != "resource_error" || !contains(o.text, "4194304 elements of type char") ||
          !contains(o.text, "/dev/shm"))
        throw std::logic_error(o.kind + ": " + o.text);
      std::vector<int> small(2, 1);
      allreduce(comm, small, std::plus{});
    });
    if (ended.run != outcome{}) std::fprintf(stderr, "%s: %s\n", ended.run.kind.c_str(), ended.run.text.c_str());
    if (ended.run != outcome{}) return 1;
    return names_of_memory().empty() ? 0 : 2;
  });
  const int result = program.result();
  if (result == 77)
    MESSAGE("no mounts here");
  else
    CHECK(result == 0);
}

TEST_CASE("B6 a rank that is killed while it says why the group failed holds up nobody") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const std::string point : {"failure.writing", "failure.written", "failure.shown", "group.wake"}) {
    for (const bool launched : {false, true}) {
      CAPTURE(point);
      CAPTURE(launched);
      // Rank 1 fails and dies saying so.
      fault::arm({.name = point, .nth = 1, .what = action::kill, .rank = 1});
      fault::share_with_children();
      const auto work = [](process_communicator& comm, rank_report&) {
        some_calls(comm);
        if (comm.rank() == 1) throw std::runtime_error("no shoes");
        for (;;) some_calls(comm);
      };
      const auto ended = launched ? outcomes_of_launched(4, new_job(), 20s, work) : outcomes_of_processes(4, work);
      CHECK(fault::fired());
      for (const int rank : {0, 2, 3}) {
        CHECK(ended.on(rank).kind == "peer_failed");
        CHECK(ended.on(rank).peer == 1);
        CHECK(ended.on(rank).text == ended.on(0).text);
      }
      if (!launched) {
        CHECK(ended.run.kind == "peer_failed");
        CHECK(ended.run.peer == 1);
      }
    }
    // Rank 2 notices that rank 1 is dead, and dies saying so.
    fault::arm({.name = point, .nth = 1, .what = action::kill, .rank = 2});
    fault::share_with_children();
    const auto ended = outcomes_of_launched(3, new_job(), 20s, [](process_communicator& comm, rank_report&) {
      some_calls(comm);
      if (comm.rank() == 1) raise(SIGKILL);
      for (;;) {
        some_calls(comm);
      }
    });
    CHECK(ended.on(0).kind == "peer_failed");
    CHECK((ended.on(0).peer == 1 || ended.on(0).peer == 2));
  }
  fault::share_no_more();
  fault::disarm();
}

TEST_CASE("B8 if one rank cannot have the segment all ranks get an error at once") {
  const alarm_limit limit(60);
  struct refusal {
    std::string point;
    int rank;
    const char* others;
  };
  for (const refusal& r : {refusal{"segment.opened", 0, "resource_error"}, refusal{"group.create", 0, "resource_error"},
                           refusal{"segment.attach", 2, "peer_failed"}, refusal{"segment.attached", 1, "peer_failed"},
                           refusal{"group.attach", 0, "peer_failed"}}) {
    CAPTURE(r.point);
    const nothing_left check;
    fault::arm({.name = r.point, .nth = 1, .what = action::raise, .rank = r.rank});
    fault::share_with_children();
    const auto ended =
        outcomes_of_launched(3, new_job(), 50s, [](process_communicator& comm, rank_report&) { some_calls(comm); });
    CHECK(fault::fired());
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      CAPTURE(ended.on(rank).text);
      CHECK(ended.on(rank).kind == (rank == r.rank ? "other" : r.others));
      CHECK(contains(ended.on(rank).text, "fault point " + r.point));
    }
    fault::share_no_more();
    fault::disarm();
  }
}

TEST_CASE("fork() in a rank makes no rank: there the communicator says so, and the group does not mind its end") {
  const alarm_limit limit(60);
  constexpr int ranks = 3;
  for (const int way_to_end : {0, 1, 2, 3}) {
    CAPTURE(way_to_end);
    const nothing_left check;
    const shared_with_children<rank_report> reports(2 * ranks);
    const outcome run = outcome_of([&] {
      run_processes(ranks, [&](process_communicator& comm) {
        take_signals_by_default();
        auto shared = comm.allocate<int>(1000);
        some_calls(comm);
        std::vector<int> data(10, 1);
        auto pending = iallreduce(comm, data, std::plus{});
        const pid_t pid = fork();
        if (pid == 0) {
          reports[2 * comm.rank()].write(outcome_of([&] { barrier(comm); }));
          reports[2 * comm.rank() + 1].write(outcome_of([&] { auto more = comm.allocate<int>(10); }));
          if (way_to_end == 0) _exit(0);
          if (way_to_end == 1) raise(SIGKILL);
          if (way_to_end == 2) throw std::runtime_error("of no interest");
          return;
        }
        pending.wait();
        await_end(pid);
        some_calls(comm);
        if (data[9] != ranks) throw std::logic_error("wrong result");
      });
    });
    CHECK(run == outcome{});
    for (int i = 0; i < 2 * ranks; ++i) {
      const outcome o = reports[i].read();
      CHECK(o.kind == "usage_error");
      CHECK(contains(o.text, "made by fork() in rank " + std::to_string(i / 2)));
    }
  }
}

TEST_CASE("a shared buffer may outlive its communicator and its group") {
  const alarm_limit limit(60);
  child_process alone([] {
    const int before = open_descriptors();
    std::optional<shared_buffer<int>> first;
    std::optional<shared_buffer<int>> second;
    const auto f = [&](process_communicator& comm) {
      first = comm.allocate<int>(1000);
      second = comm.allocate<int>(1'000'000);
      (*first)[999] = 7;
      (*second)[999'999] = 8;
      allreduce(comm, *second, std::plus{});
    };
    detail::run_launched({0, 1, -1, -1, "alone", "a test"}, {}, f);
    if ((*first)[999] != 7 || (*second)[999'999] != 8) return 1;
    first.reset();
    if ((*second)[999'999] != 8) return 2;
    second.reset();
    return open_descriptors() == before ? 0 : 3;
  });
  CHECK(alone.result() == 0);
}

TEST_CASE("a rank that is stopped is named by all others when the time is over") {
  const alarm_limit limit(60);
  for (const int ranks : {2, 3, 5}) {
    for (const int after : {SIGCONT, SIGKILL}) {
      CAPTURE(ranks);
      CAPTURE(after);
      const nothing_left check;
      const int victim = ranks - 1;
      const channel pid_of_victim;
      const channel done;
      // Somebody who lets it go on after all others have given up.
      child_process helper([&] {
        const auto pid = pid_of_victim.hear<pid_t>();
        for (int i = 0; i < ranks - 1; ++i) done.hear<int>();
        return kill(pid, after);
      });
      const auto ended = outcomes_of_processes(ranks, [&](process_communicator& comm, rank_report&) {
        some_calls(comm);
        comm.timeout(300ms);
        if (comm.rank() == victim) {
          pid_of_victim.say_value(getpid());
          raise(SIGSTOP);
          barrier(comm);
          return;
        }
        const outcome o = outcome_of([&] { some_calls(comm); });
        done.say_value(comm.rank());
        if (o.kind != "timed_out") throw std::logic_error(o.text);
        barrier(comm);  // throws the same again
      });
      CHECK(helper.result() == 0);
      for (int rank = 0; rank < victim; ++rank) {
        CHECK(ended.on(rank).kind == "timed_out");
        CHECK(ended.on(rank).peer == victim);
        CHECK(contains(ended.on(rank).text, "rank " + std::to_string(victim)));
      }
      CHECK(ended.on(victim).kind == (after == SIGCONT ? "timed_out" : "died"));
      CHECK(ended.run == ended.on(0));
    }
  }
}
