// SPDX-License-Identifier: BSL-1.0

// A deadline ends a call on every rank, and names the rank that was late.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;
using clock = std::chrono::steady_clock;

// Long enough that on a busy machine nobody else is late.
constexpr auto patience = test::sanitized ? 300ms : 60ms;

struct named_call {
  std::string name;
  std::function<void(communicator&)> call;
};
const std::vector<named_call> calls{
    {"broadcast",
     [](communicator& c) {
       tutti::broadcast(c, std::vector<int>(3), 1);
       tutti::barrier(c);
     }},
    {"scatter",
     [](communicator& c) {
       tutti::scatter(c, std::vector<int>(static_cast<std::size_t>(c.size())), 1);
       tutti::barrier(c);
     }},
    {"gather",
     [](communicator& c) {
       tutti::gather(c, std::vector<int>(static_cast<std::size_t>(c.size())), 0);
       tutti::barrier(c);
     }},
    {"reduce",
     [](communicator& c) {
       tutti::reduce(c, std::vector<int>(3), std::plus{}, 0);
       tutti::barrier(c);
     }},
    {"reduce_scatter",
     [](communicator& c) { tutti::reduce_scatter<tutti::ring>(c, std::vector<int>(30), std::plus{}); }},
    {"allgather",
     [](communicator& c) {
       tutti::allgather<tutti::circulant>(c, std::vector<int>(static_cast<std::size_t>(c.size())));
     }},
    {"allreduce", [](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); }},
    {"large allreduce by ring",
     [](communicator& c) { tutti::allreduce<tutti::ring>(c, std::vector<int>(50000), std::plus{}); }},
    {"alltoall", [](communicator& c) { tutti::alltoall(c, std::vector<int>(static_cast<std::size_t>(c.size()))); }},
    {"barrier", [](communicator& c) { tutti::barrier(c); }},
    {"iallreduce and wait",
     [](communicator& c) {
       std::vector<int> data(3);
       tutti::iallreduce<tutti::ring>(c, data, std::plus{}).wait();
     }},
    {"iallreduce and test",
     [](communicator& c) {
       std::vector<int> data(3);
       auto pending = tutti::iallreduce<tutti::ring>(c, data, std::plus{});
       while (!pending.test()) std::this_thread::sleep_for(10us);
     }},
};

}  // namespace

TEST_CASE("a rank that does not come is named, with the round and the call, on every rank") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    const int late = ranks - 1;
    for (const named_call& c : calls) {
      CAPTURE(ranks);
      CAPTURE(c.name);
      std::atomic<int> given_up = 0;
      std::vector<clock::duration> waited(static_cast<std::size_t>(ranks));
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
        tutti::barrier(comm);
        comm.timeout(patience);
        if (comm.rank() == late) {
          while (given_up < ranks - 1) std::this_thread::sleep_for(1ms);  // stuck in something else
        }
        const auto begin = clock::now();
        const auto end = outcome_of([&] { c.call(comm); });
        waited[static_cast<std::size_t>(comm.rank())] = clock::now() - begin;
        ++given_up;
        CHECK(outcome_of([&] { tutti::barrier(comm); }) == end);
        c.call(comm);
      });
      CHECK(ended.run.kind == "timed_out");
      CHECK(ended.run.peer == late);
      CAPTURE(ended.run.text);
      for (const outcome& o : ended.of) CHECK(o == ended.run);
      CHECK(contains(ended.run.text, "rank " + std::to_string(late) + " was late"));
      CHECK(contains(ended.run.text, " ms for rank "));
      CHECK(contains(ended.run.text, " in round "));
      // Those who are let go from the second call wait in the third.
      CHECK((contains(ended.run.text, ", call 2 at " __FILE__ ":") ||
             contains(ended.run.text, ", call 3 at " __FILE__ ":")));
      waited[static_cast<std::size_t>(late)] = {};
      const auto longest = *std::max_element(waited.begin(), waited.end());
      CHECK(longest >= patience - 1ms);
      CHECK(longest < 2s);
    }
  }
}

TEST_CASE("a rank that is stuck inside its operation is named by the one that waits for it") {
  const deadline limit(60s);
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
      comm.timeout(patience);
      const auto op = tutti::commutative([stuck = comm.rank() == 1](int a, int b) {
        if (stuck) std::this_thread::sleep_for(4 * patience);
        return a + b;
      });
      // Rank 0 folds nothing, and waits for rank 1 and then for the result.
      tutti::allreduce<tutti::flat>(comm, std::vector<int>(2), op);
      tutti::barrier(comm);
    });
    CHECK(ended.run.kind == "timed_out");
    CHECK(ended.run.peer == 1);
    for (const outcome& o : ended.of) CHECK(o == ended.run);
  }
}

TEST_CASE("the deadline is for one call, and may be changed and taken back") {
  const deadline limit(60s);
  tutti::run(2, [](communicator& comm) {
    comm.timeout(60ms);
    for (int call = 0; call < 4; ++call) {
      if (comm.rank() == 1) std::this_thread::sleep_for(test::sanitized ? 5ms : 25ms);
      tutti::barrier(comm);
    }
    comm.timeout(0s);
    if (comm.rank() == 1) std::this_thread::sleep_for(150ms);
    tutti::barrier(comm);
    // As good as none; the clock does not overflow.
    for (const auto longest : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - 1ns}) {
      comm.timeout(longest);
      if (comm.rank() == 1) std::this_thread::sleep_for(20ms);
      tutti::barrier(comm);
    }
    comm.timeout(std::chrono::hours::max());
    if (comm.rank() == 1) std::this_thread::sleep_for(20ms);
    tutti::barrier(comm);
    comm.timeout(std::chrono::duration<double>(1e300));
    if (comm.rank() == 0) std::this_thread::sleep_for(20ms);
    tutti::barrier(comm);
  });
}

TEST_CASE("a deadline that is negative or no number is refused, and the one before stays") {
  const deadline limit(60s);
  tutti::run(3, [](communicator& comm) {
    const std::string begin = "timeout on rank " + std::to_string(comm.rank()) + " of 3: ";
    const auto refusal = [&](auto wrong) {
      const outcome end = outcome_of([&] { comm.timeout(wrong); });
      CHECK(end.kind == "usage_error");
      CHECK(contains(end.text, begin));
      CHECK(contains(end.text, " seconds, must be at least 0, which is for ever"));
      return end.text;
    };
    CHECK(contains(refusal(-5s), begin + "-5 seconds"));
    CHECK(contains(refusal(-250ms), begin + "-0.25 seconds"));
    CHECK(contains(refusal(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())), "nan seconds"));
    CHECK(contains(refusal(std::chrono::duration<double>(-1e300)), begin + "-1e+300 seconds"));
    refusal(std::chrono::hours::min());
    refusal(-1ns);
    tutti::barrier(comm);
  });
  const auto ended = outcomes_of_run(2, [](communicator& comm) {
    comm.timeout(patience);
    CHECK_THROWS_AS(comm.timeout(-1s), tutti::usage_error);
    if (comm.rank() == 1) std::this_thread::sleep_for(2 * patience);
    tutti::barrier(comm);
    tutti::barrier(comm);
  });
  CHECK(ended.run.kind == "timed_out");
  CHECK(ended.run.peer == 1);
}

TEST_CASE("a deadline that passes while nobody waits does no harm") {
  const deadline limit(60s);
  tutti::run(3, [](communicator& comm) {
    comm.timeout(test::sanitized ? 1000ms : 100ms);
    std::vector<int> data(3, 1);
    auto pending = tutti::iallreduce<tutti::naive>(comm, data, std::plus{});
    std::this_thread::sleep_for(test::sanitized ? 1200ms : 150ms);
    pending.wait();
    CHECK(data == std::vector<int>(3, 3));
  });
}
