// SPDX-License-Identifier: BSL-1.0

// Ranks over TCP whose system fails them once, at any call: they go on with the right result, or every rank says why
// not. Nothing hangs, and nothing is left.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "deadline.hpp"
#include "transport/tcp_interposer.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

using test::tcp_comm;
namespace interposer = test::interposer;
using interposer::bit, interposer::call;

// How many ranks have done all that they had to do, and only leave.
std::atomic<int> done;

void work(tcp_comm& comm) {
  std::vector<std::int32_t> values(20'000);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i) + comm.rank();
    tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
    const auto n = static_cast<std::int32_t>(comm.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != n * (n - 1) / 2 + n * static_cast<std::int32_t>(i)) throw std::runtime_error("wrong sum");
  }
  ++done;
}

test::listening_job hasty_job(int ranks) {
  test::listening_job job(ranks);
  for (auto& each : job.options) {
    each.start_timeout = std::chrono::milliseconds(600);
    each.heartbeat = std::chrono::milliseconds(1000);
  }
  return job;
}

bool all_well(const std::vector<test::outcome>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(), [](const auto& each) { return each == test::outcome{}; });
}
// Whatever it was, each rank tells it by an error of ours.
bool all_say_why(const std::vector<test::outcome>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(), [](const auto& each) {
    return each.kind == "peer_failed" || each.kind == "timed_out" || each.kind == "resource_error";
  });
}

// When all is done, and only the last word is lost, who waits for it cannot know whether the others are well.
bool each_says_why_if_it_must(const std::vector<test::outcome>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [](const auto& each) { return each == test::outcome{} || all_say_why({each}); });
}

struct sweep {
  std::string what;
  unsigned kinds;
  int error;
  bool harmless;  // all goes well all the same
};

TEST_CASE("E the n-th system call fails") {
  const test::deadline limit(std::chrono::seconds(100));
  const sweep sweeps[] = {
      {"reads are interrupted", interposer::reads, EINTR, true},
      {"writes are interrupted", interposer::writes, EINTR, true},
      {"reads give nothing though there is something", interposer::reads, EAGAIN, true},
      {"writes find no room though there is some", interposer::writes, EAGAIN, true},
      {"accept is interrupted", bit(call::accept), EINTR, true},
      {"who connects has gone when it is accepted", bit(call::accept), ECONNABORTED, true},
      {"poll is interrupted", bit(call::poll), EINTR, true},
      {"reads find the connection reset", interposer::reads, ECONNRESET, false},
      {"writes find the connection reset", interposer::writes, ECONNRESET, false},
      {"writes find the connection closed", interposer::writes, EPIPE, false},
      {"accept finds no descriptor", bit(call::accept), EMFILE, true},
      {"accept finds no descriptor in the system", bit(call::accept), ENFILE, true},
      {"connect is refused", bit(call::connect), ECONNREFUSED, true},
      {"connect finds no way", bit(call::connect), EHOSTUNREACH, false},
      {"there is no descriptor for a socket", bit(call::socket), EMFILE, false},
  };
  for (const sweep& s : sweeps) {
    CAPTURE(s.what);
    int runs = 0;
    const int before = test::open_descriptors();
    // At most so many, spread over all calls that there are.
    for (long n = 1, step = 1; runs < 30; n += step, step = 1 + n / 5) {
      CAPTURE(n);
      const interposer::session replaced;
      done = 0;
      const test::listening_job job = hasty_job(2);
      interposer::fail(s.kinds, s.error, n);
      const auto outcomes = test::outcomes_of_tcp(job.options, work);
      ++runs;
      const bool reached = interposer::rule.failed != 0;
      CAPTURE(outcomes[0]);
      CAPTURE(outcomes[1]);
      if (s.harmless || !reached)
        CHECK(all_well(outcomes));
      else
        CHECK((done == 2 ? each_says_why_if_it_must(outcomes) : all_say_why(outcomes) || all_well(outcomes)));
      CHECK(test::open_descriptors() == before);
      if (!reached) break;
    }
    CHECK(runs > 1);  // the calls that are meant are made
  }
}

TEST_CASE("E9 where there are too few descriptors the limit is named") {
  if (test::sanitized) return;  // sanitizers need descriptors for their own checks
  const test::deadline limit(std::chrono::seconds(100));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  bool named = false, enough = false;
  // From none more than there are, until that is enough.
  for (int more = 0; more < 60 && !enough; ++more) {
    CAPTURE(more);
    const int without_job = test::open_descriptors();
    test::listening_job job(2);
    for (auto& each : job.options) each.start_timeout = std::chrono::milliseconds(100);
    const int with_listeners = test::open_descriptors();
    const rlimit few{static_cast<rlim_t>(with_listeners + more), before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    const auto outcomes = test::outcomes_of_tcp(job.options, work);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    enough = all_well(outcomes);
    CAPTURE(outcomes[0]);
    CAPTURE(outcomes[1]);
    CHECK((enough || all_say_why(outcomes)));
    for (const auto& each : outcomes) {
      if (each.kind != "resource_error") continue;
      CHECK(each.text.find("RLIMIT_NOFILE") != std::string::npos);
      CHECK(each.text.find(std::to_string(few.rlim_cur)) != std::string::npos);
      named = true;
    }
    CHECK(test::open_descriptors() == without_job);
  }
  CHECK(enough);
  CHECK(named);
}

}  // namespace
