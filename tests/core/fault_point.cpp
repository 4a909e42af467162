// SPDX-License-Identifier: BSL-1.0

// Fault points do what was armed, once, at the hit that was meant, and are counted by name.

#define TUTTI_FAULT_POINTS
#include <tutti/core/fault_point.hpp>

#include "child_process.hpp"

#include <doctest/doctest.h>

#include <pthread.h>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace test;
using namespace tutti;
using fault::action;

namespace {

void first() { TUTTI_FAULT_POINT("test.first"); }
void second() { TUTTI_FAULT_POINT("test.second"); }
/// Another place of the same name, which need not lie where the first does.
void first_elsewhere() {
  static const char name[] = "test.first";
  fault::reach(name);
}

/// What is thrown, if anything.
template <class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const tutti::error& e) {
    return e.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string objection_to(const std::string& text) {
  return thrown([&] { fault::parse(text); });
}

}  // namespace

TEST_CASE("what was armed happens at that hit of that name, and once") {
  for (const std::uint64_t nth : {1u, 2u, 5u}) {
    CAPTURE(nth);
    fault::arm({.name = "test.first", .nth = nth, .what = action::raise});
    for (std::uint64_t hit = 1; hit < 10; ++hit) {
      CAPTURE(hit);
      second();
      const std::string text = thrown(hit % 2 != 0 ? first : first_elsewhere);
      CHECK(contains(text, "fault point test.first, hit " + std::to_string(nth)) == (hit == nth));
      CHECK(text.empty() == (hit != nth));
      CHECK(fault::fired() == (hit >= nth));
    }
  }
  fault::disarm();
}

TEST_CASE("the hits of all names count together") {
  fault::arm({.name = "*", .nth = 4, .what = action::raise});
  first();
  second();
  first();
  CHECK(contains(thrown(second), "fault point test.second, hit 4"));
  CHECK(thrown(first).empty());
}

TEST_CASE("nothing happens when disarmed") {
  fault::arm({.name = "*", .nth = 2, .what = action::raise});
  first();
  fault::disarm();
  CHECK(thrown(first).empty());
  CHECK_FALSE(fault::fired());
}

TEST_CASE("a plan for one rank counts its hits alone") {
  fault::arm({.name = "test.first", .nth = 2, .what = action::raise, .rank = 3});
  first();
  TUTTI_FAULT_RANK(2);
  first();
  first();
  TUTTI_FAULT_RANK(3);
  first();
  TUTTI_FAULT_RANK(2);
  first();
  TUTTI_FAULT_RANK(3);
  CHECK(contains(thrown(first), "hit 2"));
  TUTTI_FAULT_RANK(-1);
}

TEST_CASE("every hit is counted, and the names are listed") {
  const std::uint64_t all = fault::hits();
  const std::uint64_t one = fault::hits("test.first");
  const std::uint64_t other = fault::hits("test.second");
  first();
  first_elsewhere();
  second();
  CHECK(fault::hits() == all + 3);
  CHECK(fault::hits("test.first") == one + 2);
  CHECK(fault::hits("test.second") == other + 1);
  CHECK(fault::hits("test.none") == 0);
  std::vector<std::string> names;
  fault::for_each_name([&](std::string_view name, std::uint64_t hits) {
    names.emplace_back(name);
    CHECK(hits > 0);
  });
  CHECK(names == std::vector<std::string>{"test.second", "test.first"});
}

TEST_CASE("hits of several threads are counted, and one of them gets the fault") {
  const alarm_limit limit(60);
  constexpr int hits_each = 10'000;
  fault::arm({.name = "test.first", .nth = 3 * hits_each, .what = action::raise});
  const std::uint64_t before = fault::hits("test.first");
  const auto work = [](void* thrown_here) -> void* {
    for (int i = 0; i < hits_each; ++i) *static_cast<int*>(thrown_here) += thrown(first).empty() ? 0 : 1;
    return nullptr;
  };
  pthread_t threads[4];
  int faults[4] = {};
  for (int i = 0; i < 4; ++i) REQUIRE(pthread_create(&threads[i], nullptr, work, &faults[i]) == 0);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  CHECK(fault::hits("test.first") == before + 4 * hits_each);
  CHECK(faults[0] + faults[1] + faults[2] + faults[3] == 1);
}

TEST_CASE("kill ends the process, stop stops it") {
  const alarm_limit limit(60);
  child_process killed([] {
    fault::arm({.name = "test.first", .nth = 2, .what = action::kill});
    first();
    first();
    return 0;
  });
  CHECK(WTERMSIG(killed.end()) == SIGKILL);

  child_process stopped([] {
    fault::arm({.name = "test.first", .nth = 1, .what = action::stop});
    first();
    return 7;
  });
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(stopped.pid()), &info, WSTOPPED | WEXITED | WNOWAIT) == 0);
  CHECK(info.si_code == CLD_STOPPED);
  CHECK(info.si_status == SIGSTOP);
  stopped.send(SIGCONT);
  CHECK(stopped.result() == 7);
}

TEST_CASE("sleep takes at least as long as it was told") {
  const alarm_limit limit(60);
  fault::arm({.name = "test.first", .nth = 1, .what = action::sleep, .milliseconds = 20});
  const std::int64_t begin = fault::nanoseconds_now();
  first();
  const std::int64_t end = fault::nanoseconds_now();
  CHECK(end - begin >= 20'000'000);
  CHECK(fault::fired_at() >= begin);
  CHECK(fault::fired_at() <= end - 20'000'000);
  CHECK(fault::fired());
}

TEST_CASE("children count with their parent if told to, and one of them gets the fault") {
  const alarm_limit limit(60);
  fault::arm({.name = "test.second", .nth = 5, .what = action::kill});
  fault::share_with_children();
  CHECK(fault::hits() == 0);
  CHECK_FALSE(fault::fired());
  std::vector<int> ended;
  for (int i = 0; i < 4; ++i) {
    child_process child([] {
      second();
      TUTTI_FAULT_POINT("test.of_a_child");
      second();
      return 0;
    });
    const int status = child.end();
    ended.push_back(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
  CHECK(ended == std::vector<int>{0, 0, SIGKILL, 0});
  CHECK(fault::fired());
  CHECK(fault::hits("test.second") == 7);
  CHECK(fault::hits("test.of_a_child") == 3);

  fault::share_with_children();  // anew
  CHECK(fault::hits() == 0);
  fault::share_no_more();
  CHECK(fault::hits("test.of_a_child") == 0);
  CHECK(fault::hits("test.second") != 0);
}

TEST_CASE("texts say what is to happen") {
  const auto same = [](const fault::plan& p, std::string_view name, std::uint64_t nth, action what, int rank,
                       std::int64_t milliseconds) {
    return p.name == name && p.nth == nth && p.what == what && p.rank == rank && p.milliseconds == milliseconds;
  };
  CHECK(same(fault::parse("segment.attach:3:kill"), "segment.attach", 3, action::kill, -1, 0));
  CHECK(same(fault::parse("*:12:stop@7"), "*", 12, action::stop, 7, 0));
  CHECK(same(fault::parse("a:1:throw"), "a", 1, action::raise, -1, 0));
  CHECK(same(fault::parse("a:1:sleep:250@0"), "a", 1, action::sleep, 0, 250));
  for (const char* text :
       {"", "a", "a:1", "a::kill", ":1:kill", "a:0:kill", "a:-1:kill", "a:x:kill", "a:1:die", "a:1:kill:5", "a:1:sleep",
        "a:1:sleep:", "a:1:sleep:x", "a:1:kill@", "a:1:kill@x", "a:1:kill@-1", "a:1:kill@9999999999",
        "a:99999999999999999999:kill", "a:1:sleep:9999999999"}) {
    CAPTURE(text);
    CHECK(contains(objection_to(text), "fault point: \"" + std::string(text) + "\" must be NAME:HIT:ACTION"));
  }
  CHECK(contains(thrown([] { fault::arm({.nth = 0}); }), "hit is 0"));
  CHECK(contains(thrown([] { fault::arm({.name = ""}); }), "must have 1 to 63 characters"));
  const std::string longest(63, 'x');
  CHECK(thrown([&] { fault::arm({.name = longest}); }).empty());
  fault::disarm();
  CHECK(contains(thrown([&] { fault::arm({.name = longest + "x"}); }), "must have 1 to 63 characters"));
}

TEST_CASE("a program that is started reads from its environment what is to happen") {
  const alarm_limit limit(60);
  // This program again, running the case below alone.
  const auto started = [](const char* text, const char* test_case = "--test-case=[started] hits five times") {
    child_process child([&] {
      setenv("TUTTI_FAULT", text, 1);
      setenv("TUTTI_TEST_STARTED", "1", 1);
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
      execl("/proc/self/exe", "fault_point", "--no-skip", test_case, nullptr);
      return 127;
    });
    return child.end();
  };
  const int killed = started("test.first:5:kill");
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  const int not_reached = started("test.first:6:kill");
  CHECK((WIFEXITED(not_reached) && WEXITSTATUS(not_reached) == 0));
  const int thrown_there = started("*:5:throw");
  CHECK((WIFEXITED(thrown_there) && WEXITSTATUS(thrown_there) == 1));
  const int nonsense = started("test.first:5");
  CHECK((WIFEXITED(nonsense) && WEXITSTATUS(nonsense) == 1));
  const int armed_anew = started("test.first:1:kill", "--test-case=[started] arms something else");
  CHECK((WIFEXITED(armed_anew) && WEXITSTATUS(armed_anew) == 0));
}

TEST_CASE("[started] hits five times" * doctest::skip()) {
  for (int i = 0; i < 5; ++i) first();
  CHECK(fault::hits() == 5);
}

TEST_CASE("[started] arms something else" * doctest::skip()) {
  fault::arm({.name = "test.first", .nth = 2, .what = action::raise});
  first();
  CHECK(contains(thrown(first), "hit 2"));
}
