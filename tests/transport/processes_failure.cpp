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

/// Rank 0 of the group, in a process that is killed while it writes.
void die_writing(processes_group& group) {
  const pid_t pid = fork();
  if (pid < 0) std::abort();
  if (pid == 0) {
    test::take_signals_by_default();
    group.attach(0);
    tutti::fault::arm({.name = "processes.fail"});
    group.fail({errc::mismatch, 0, "what rank 0 did not come to say"});
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

void check_names_rank_0(const tutti::failure& seen) {
  CHECK(seen.kind == errc::peer_failed);
  CHECK(seen.peer == 0);
  CHECK(seen.text.find("rank 0 (process ") != std::string::npos);
  CHECK(seen.text.find("has ended without a word") != std::string::npos);
}

}  // namespace

TEST_CASE("who wants to say that the group failed does not wait for a rank that died saying so") {
  const test::alarm_limit limit(30);
  processes_group group(2);
  die_writing(group);
  group.attach(1);
  group.fail({errc::mismatch, 0, "what rank 1 came too late to say"});
  check_names_rank_0(thrown([&] { group.raise(); }));
}

TEST_CASE("what was read of others does not count once one of them has begun to fail") {
  const test::alarm_limit limit(30);
  processes_group group(2);
  die_writing(group);
  group.attach(1);
  CHECK(group.failed());
  check_names_rank_0(thrown([&] { group.check_after_reading(); }));
}
