// SPDX-License-Identifier: BSL-1.0

// A rank dies while it writes down why the group fails: nobody takes the group for sound meanwhile, nor waits for the
// dead.

#define TUTTI_FAULT_POINTS
#include <tutti/core/fault_point.hpp>
#include <tutti/transport/processes/group.hpp>

#include "child_process.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>

using tutti::errc;
using tutti::detail::processes_group;

namespace {

/// Rank 0 of the group, in a process that is killed at that point of saying why it failed.
void die_at(processes_group& group, const char* point) {
  const pid_t pid = fork();
  if (pid < 0) std::abort();
  if (pid == 0) {
    test::take_signals_by_default();
    group.attach(0);
    tutti::fault::arm({.name = point});
    group.fail({errc::mismatch, 0, "what rank 0 said"});
    _exit(1);
  }
  const int status = test::await_end(pid);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGKILL);
}

/// What `f()` throws: kind, rank and text.
template <class F>
tutti::failure thrown(F&& f) {
  try {
    f();
  } catch (const tutti::peer_failed& e) {
    return {errc::peer_failed, e.peer(), e.what()};
  } catch (const tutti::error& e) {
    return {static_cast<errc>(e.code().value()), -1, e.what()};
  }
  return {};
}

}  // namespace

TEST_CASE("who wants to say why the group failed does not wait for a rank that died saying so") {
  const test::alarm_limit limit(30);
  for (const char* const point : {"failure.writing", "failure.written"}) {
    processes_group group(2);
    die_at(group, point);
    group.attach(1);
    CHECK_FALSE(group.failed());
    group.fail({errc::timed_out, 0, "what rank 1 said"});
    CHECK(group.failed());
    const tutti::failure seen = thrown([&] { group.raise(); });
    CHECK(seen.kind == errc::timed_out);
    CHECK(seen.text.find("what rank 1 said") != std::string::npos);
  }
}

TEST_CASE("what was read of others does not count once one of them has said that it failed") {
  const test::alarm_limit limit(30);
  processes_group group(2);
  die_at(group, "failure.shown");
  group.attach(1);
  CHECK(group.failed());
  group.fail({errc::timed_out, 0, "what rank 1 came too late to say"});
  const tutti::failure seen = thrown([&] { group.check_after_reading(); });
  CHECK(seen.kind == errc::mismatch);
  CHECK(seen.text.find("what rank 0 said") != std::string::npos);
}
