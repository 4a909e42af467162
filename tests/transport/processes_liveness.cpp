// SPDX-License-Identifier: BSL-1.0

// A process that has ended is noticed, by pidfd or without, and no other is taken for it.

#include <tutti/transport/processes/liveness.hpp>

#include "child_process.hpp"
#include "counted_new.hpp"

#include <doctest/doctest.h>

#include <pthread.h>
#include <sched.h>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

using namespace test;
using tutti::detail::look_for;
using tutti::detail::look_without_descriptor;
using tutti::detail::peer_watch;
using tutti::detail::presence;
using tutti::detail::process_identity;
using tutti::detail::process_status;
using tutti::detail::this_process;
using means = peer_watch::means;

static_assert(std::is_trivially_copyable_v<process_identity> && std::is_standard_layout_v<process_identity>);

namespace {

constexpr auto waits = [] {
  sleep_for_ever();
  return 0;
};

/// Its number and time of start, as others see them.
process_identity identity_of(pid_t pid) {
  process_status status;
  REQUIRE(tutti::detail::read_status(pid, status));
  return {pid, status.start_time};
}

/// Children that wait to be killed, and a watch on each.
struct watched_children {
  std::vector<std::unique_ptr<child_process>> children;
  peer_watch watch;

  watched_children(int count, means m = means::by_pidfd) : watch(count, m) {
    for (int i = 0; i < count; ++i) {
      children.push_back(std::make_unique<child_process>(waits));
      watch.watch(i, identity_of(children.back()->pid()));
    }
  }
  /// Kills it, and leaves it a zombie.
  void kill(int i) {
    children[static_cast<std::size_t>(i)]->send(SIGKILL);
    await_zombie(children[static_cast<std::size_t>(i)]->pid());
  }
  void reap(int i) { children[static_cast<std::size_t>(i)]->end(); }
};

process_status parsed(const std::string& line, bool good = true) {
  process_status status;
  CHECK(tutti::detail::parse_status(line.data(), line.size(), status) == good);
  return status;
}

/// A line of /proc/PID/stat with these fields 2, 3, 20 and 22.
std::string stat_line(const std::string& name, char state, int threads, const std::string& start) {
  std::string line = "77 (" + name + ") " + state;
  for (int field = 4; field < 20; ++field) line += " -" + std::to_string(field);
  return line + ' ' + std::to_string(threads) + " 0 " + start + " 23 24\n";
}

/// How one returns, or is told that seccomp is not to be had.
constexpr int no_seccomp = 99;

void check_child(child_process& child) {
  const int result = child.result();
  if (result == no_seccomp) {
    MESSAGE("no seccomp here");
    return;
  }
  CHECK(result == 0);  // else the number of the line that failed, modulo 256
}

}  // namespace

// In a child, where doctest's counts would be lost.
#define EXPECT(...) \
  if (!(__VA_ARGS__)) return std::fprintf(stderr, "line %d: %s\n", __LINE__, #__VA_ARGS__), 1

TEST_CASE("a line of /proc/PID/stat is read, whatever the program is called") {
  for (const char* name : {"a", "", "a b", "a) Z 1 2 3", ")", "((", ") X ("}) {
    CAPTURE(name);
    const process_status status = parsed(stat_line(name, 'S', 12, "3456789012"));
    CHECK(status.state == 'S');
    CHECK(status.threads == 12);
    CHECK(status.start_time == 3456789012u);
    CHECK_FALSE(status.ended());
  }
  CHECK(parsed(stat_line("a", 'Z', 1, "1")).ended());
  CHECK(parsed(stat_line("a", 'Z', 0, "1")).ended());
  CHECK(parsed(stat_line("a", 'X', 1, "1")).ended());
  CHECK_FALSE(parsed(stat_line("a", 'Z', 2, "1")).ended());
  CHECK_FALSE(parsed(stat_line("a", 'T', 1, "1")).ended());
  parsed("", false);
  parsed("77 a S 1 2 3", false);
  parsed("77 (a) S 1 2 3", false);
  parsed("77 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 ", false);
}

TEST_CASE("a process knows itself, and its child that it is another") {
  const alarm_limit limit(60);
  const process_identity self = this_process();
  CHECK(self.pid == getpid());
  CHECK(self.start_time != 0);
  CHECK(self == this_process());
  CHECK(self == identity_of(getpid()));
  const channel told;
  const child_process child([&] {
    told.say_value(this_process());
    sleep_for_ever();
    return 0;
  });
  const auto other = told.hear<process_identity>();
  CHECK(other.pid == child.pid());
  CHECK(other == identity_of(child.pid()));
  CHECK(other.start_time >= self.start_time);
}

TEST_CASE("the end of a process is noticed before and after its parent takes notice, by every means") {
  const alarm_limit limit(60);
  const int descriptors = open_descriptors();
  for (const means m : {means::by_pidfd, means::by_looking}) {
    CAPTURE(static_cast<int>(m));
    watched_children these(5, m);
    CHECK(these.watch.pidfds() == (m == means::by_pidfd && pidfds_to_be_had() ? 5 : 0));
    CHECK(these.watch.first_gone() == -1);
    these.kill(3);
    CHECK(these.watch.first_gone() == 3);
    CHECK(these.watch.first_gone() == 3);
    these.kill(1);
    CHECK(these.watch.first_gone() == 1);
    these.watch.forget(1);
    CHECK(these.watch.first_gone() == 3);
    these.reap(3);
    CHECK(these.watch.first_gone() == 3);
    these.watch.forget(3);
    CHECK(these.watch.first_gone() == -1);
    these.kill(0);
    these.reap(0);
    CHECK(these.watch.first_gone() == 0);
    these.watch.clear();
    CHECK(these.watch.first_gone() == -1);
    CHECK(these.watch.pidfds() == 0);
  }
  CHECK(open_descriptors() == descriptors);
  CHECK_FALSE(has_children());
}

TEST_CASE("however it ends") {
  const alarm_limit limit(60);
  for (const means m : {means::by_pidfd, means::by_looking}) {
    for (const int how : {0, 1, 2, 3}) {
      CAPTURE(how);
      const channel go;
      child_process child([&] {
        go.wait();
        if (how == 1) _exit(3);
        if (how == 2) std::abort();
        if (how == 3) raise(SIGTERM);
        return 0;
      });
      peer_watch watch(1, m);
      watch.watch(0, identity_of(child.pid()));
      CHECK(watch.first_gone() == -1);
      go.say_value('x');
      await_zombie(child.pid());
      CHECK(watch.first_gone() == 0);
    }
  }
}

TEST_CASE("a process that is stopped is not gone") {
  const alarm_limit limit(60);
  watched_children by_pidfd(1);
  watched_children by_looking(1, means::by_looking);
  for (watched_children* const these : {&by_pidfd, &by_looking}) {
    const pid_t pid = these->children[0]->pid();
    siginfo_t info{};
    kill(pid, SIGSTOP);
    REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED) == 0);
    CHECK(these->watch.first_gone() == -1);
    kill(pid, SIGCONT);
    REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WCONTINUED) == 0);
    CHECK(these->watch.first_gone() == -1);
    these->kill(0);
    CHECK(these->watch.first_gone() == 0);
  }
}

TEST_CASE("one that had ended before it was watched is gone, and so is one whose number another has got") {
  const alarm_limit limit(60);
  const int descriptors = open_descriptors();
  for (const means m : {means::by_pidfd, means::by_looking}) {
    child_process child(waits);
    const process_identity who = identity_of(child.pid());
    peer_watch watch(4, m);
    watch.watch(0, {who.pid, who.start_time + 1});
    watch.watch(1, who);
    watch.watch(2, {who.pid, 0});  // time not known
    CHECK(watch.first_gone() == 0);
    watch.forget(0);
    CHECK(watch.first_gone() == -1);
    child.send(SIGKILL);
    await_zombie(child.pid());
    watch.watch(0, who);
    CHECK(watch.first_gone() == 0);
    child.end();
    watch.watch(3, who);
    for (const int rank : {0, 1, 2, 3}) {
      CHECK(watch.first_gone() == rank);
      watch.forget(rank);
    }
    CHECK(watch.first_gone() == -1);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("to watch another process in place of the first lets go of that") {
  const alarm_limit limit(60);
  watched_children these(2);
  const int descriptors = open_descriptors();
  these.watch.watch(0, identity_of(these.children[1]->pid()));
  CHECK(open_descriptors() == descriptors);
  these.kill(0);
  CHECK(these.watch.first_gone() == -1);
  these.kill(1);
  CHECK(these.watch.first_gone() == 0);
}

TEST_CASE("to look allocates nothing") {
  if (!counting) return;
  const alarm_limit limit(60);
  for (const means m : {means::by_pidfd, means::by_looking}) {
    watched_children these(3, m);
    these.kill(2);
    const std::size_t before = allocations;
    const int gone = these.watch.first_gone();
    CHECK(allocations == before);
    CHECK(gone == 2);
  }
}

TEST_CASE("programs that a rank starts do not inherit what it watches with") {
  const alarm_limit limit(60);
  const watched_children these(3);
  int found = 0;
  for (int number = 0; number < 1024; ++number) {
    char target[64] = {};
    if (readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), target, sizeof target - 1) < 0) continue;
    if (std::strstr(target, "pidfd") == nullptr) continue;
    ++found;
    CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == these.watch.pidfds());
}

TEST_CASE("wrong ranks and processes are refused by name") {
  peer_watch watch(2);
  const auto text = [&](int rank, process_identity who) -> std::string {
    try {
      watch.watch(rank, who);
    } catch (const tutti::usage_error& e) {
      return e.what();
    }
    return {};
  };
  CHECK(text(2, this_process()).find("rank is 2, must be in [0, 2)") != std::string::npos);
  CHECK(text(-1, this_process()).find("rank is -1, must be in [0, 2)") != std::string::npos);
  CHECK(text(1, {0, 0}).find("process of rank 1 is 0, must be positive") != std::string::npos);
  CHECK(text(1, {-7, 0}).find("process of rank 1 is -7, must be positive") != std::string::npos);
  watch.forget(7);
  CHECK(watch.first_gone() == -1);
}

TEST_CASE("where the kernel refuses pidfds, the end is noticed all the same") {
  const alarm_limit limit(60);
  for (const int error : {ENOSYS, EPERM, EMFILE, ENODEV}) {
    CAPTURE(error);
    child_process child([&] {
      if (!refuse_system_call(SYS_pidfd_open, error)) return no_seccomp;
      child_process other(waits);
      peer_watch watch(1);
      watch.watch(0, {other.pid(), 0});
      EXPECT(watch.pidfds() == 0);
      EXPECT(watch.first_gone() == -1);
      other.send(SIGKILL);
      await_zombie(other.pid());
      EXPECT(watch.first_gone() == 0);
      return 0;
    });
    check_child(child);
  }
}

TEST_CASE("those that get no descriptor are looked for, with some left and with none") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  for (const int spare : {2, 0}) {
    CAPTURE(spare);
    child_process child([&] {
      std::vector<std::unique_ptr<child_process>> others;
      std::vector<process_identity> who;
      for (int i = 0; i < 6; ++i) {
        others.push_back(std::make_unique<child_process>(waits));
        process_status status;
        EXPECT(tutti::detail::read_status(others.back()->pid(), status));
        who.push_back({others.back()->pid(), status.start_time});
      }
      const int lowest = dup(0);
      close(lowest);
      limit_descriptors(lowest + 3 + spare);
      int taken[8];
      for (int i = 0; i < spare; ++i) taken[i] = dup(0);
      peer_watch watch(6);
      for (int i = 0; i < 6; ++i) watch.watch(i, who[static_cast<std::size_t>(i)]);
      EXPECT(watch.pidfds() == 3);
      EXPECT(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE);
      EXPECT(watch.first_gone() == -1);
      for (int i = 0; i < spare; ++i) close(taken[i]);
      EXPECT(watch.first_gone() == -1);
      for (int i = 5; i >= 0; --i) {
        others[static_cast<std::size_t>(i)]->send(SIGKILL);
        await_zombie(others[static_cast<std::size_t>(i)]->pid());
        EXPECT(watch.first_gone() == i);
        others[static_cast<std::size_t>(i)]->end();
        EXPECT(watch.first_gone() == i);
      }
      return 0;
    });
    CHECK(child.result() == 0);
  }
}

TEST_CASE("a lower limit of descriptors than there are does not blind the watch") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  child_process child([&] {
    std::vector<std::unique_ptr<child_process>> others;
    peer_watch watch(6);
    for (int i = 0; i < 6; ++i) {
      others.push_back(std::make_unique<child_process>(waits));
      watch.watch(i, {others.back()->pid(), 0});
    }
    EXPECT(watch.pidfds() == 6);
    limit_descriptors(3);  // poll(2) takes no more than that at a time
    pollfd none[4] = {{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    EXPECT(poll(none, 4, 0) == -1 && errno == EINVAL);
    EXPECT(watch.first_gone() == -1);
    others[4]->send(SIGKILL);
    await_zombie(others[4]->pid());
    EXPECT(watch.first_gone() == 4);
    watch.clear();
    return 0;
  });
  CHECK(child.result() == 0);
}

TEST_CASE("a program that closes all descriptors and opens others mistakes nobody for dead") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  child_process child([&] {
    std::vector<std::unique_ptr<child_process>> others;
    peer_watch watch(3);
    int numbers[3];
    for (int i = 0; i < 3; ++i) {
      others.push_back(std::make_unique<child_process>(waits));
      const int next = dup(0);  // the number that the pidfd will have
      close(next);
      numbers[i] = next;
      watch.watch(i, {others.back()->pid(), 0});
    }
    for (const int number : numbers) close(number);
    const int readable = open("/dev/null", O_RDONLY);  // as a pidfd is when its process has ended
    EXPECT(readable == numbers[0]);
    EXPECT(watch.first_gone() == -1);
    EXPECT(watch.pidfds() == 0);
    EXPECT(fcntl(readable, F_GETFD) >= 0);
    others[0]->send(SIGKILL);
    await_zombie(others[0]->pid());
    EXPECT(watch.first_gone() == 0);
    others[2]->send(SIGKILL);
    await_zombie(others[2]->pid());
    watch.forget(0);
    EXPECT(watch.first_gone() == 2);
    EXPECT(fcntl(readable, F_GETFD) >= 0);
    return 0;
  });
  CHECK(child.result() == 0);
}

TEST_CASE("nor does the watch close what it did not open") {
  if (!pidfds_to_be_had()) {
    MESSAGE("no pidfds here");
    return;
  }
  const alarm_limit limit(60);
  child_process child([&] {
    child_process other(waits);
    int number = 0;
    {
      peer_watch watch(1);
      number = dup(0);
      close(number);
      watch.watch(0, {other.pid(), 0});
      close(number);
      EXPECT(open("/dev/null", O_RDONLY) == number);
    }
    EXPECT(fcntl(number, F_GETFD) >= 0);
    return 0;
  });
  CHECK(child.result() == 0);
}

TEST_CASE("a process whose main thread has left is there until its last thread has") {
  const alarm_limit limit(60);
  static channel go;  // outlives the main thread's stack
  child_process child([&] {
    pthread_t thread{};
    const auto work = [](void*) -> void* {
      go.wait();
      _exit(0);
    };
    if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 1;
    syscall(SYS_exit, 0);  // as pthread_exit(3) ends, without unwinding through this test
    return 1;
  });
  const process_identity who = identity_of(child.pid());
  process_status status;
  while (tutti::detail::read_status(child.pid(), status) && status.state != 'Z') sched_yield();
  CHECK(status.threads >= 2);
  peer_watch by_pidfd(1);
  peer_watch by_looking(1, means::by_looking);
  by_pidfd.watch(0, who);
  by_looking.watch(0, who);
  CHECK(by_pidfd.first_gone() == -1);
  CHECK(by_looking.first_gone() == -1);
  CHECK(look_without_descriptor(child.pid()) == presence::here);
  go.say_value('x');
  await_zombie(child.pid());
  CHECK(by_pidfd.first_gone() == 0);
  CHECK(by_looking.first_gone() == 0);
  CHECK(look_without_descriptor(child.pid()) == presence::gone);
}
