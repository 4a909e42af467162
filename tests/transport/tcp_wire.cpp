// SPDX-License-Identifier: BSL-1.0

// Two ranks over TCP with a bad network between them: late, cut, broken, or swallowing everything. They come to the
// right result, or both say in time what went wrong.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "deadline.hpp"
#include "transport/tcp_interposer.hpp"
#include "transport/tcp_proxy.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

using namespace std::chrono_literals;
using test::proxy_behaviour;
using test::tcp_comm;
using behaviour = std::function<proxy_behaviour(int)>;

void add(tcp_comm& comm) {
  std::vector<std::int32_t> values(50'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i) * (comm.rank() + 1);
  tutti::allreduce<tutti::circulant>(comm, values, std::plus{});
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 3 * static_cast<std::int32_t>(i)) throw std::runtime_error("wrong sum");
}

// The first connections to rank 0 are those by which they tell how they are; all others carry data. Those to a third
// rank are good.
struct wire {
  wire(const behaviour& control, const behaviour& data, int ranks = 2)
      : job(ranks),
        to_first(job.port(0), [=](int i) { return i < ranks - 1 ? control(i) : data(i); }),
        to_second(job.port(1), data) {
    test::interposer::redirect(job.port(0), to_first.port());
    test::interposer::redirect(job.port(1), to_second.port());
    for (auto& each : job.options) {
      each.heartbeat = 300ms;
      each.start_timeout = 5s;
    }
  }
  std::vector<test::outcome> run(const std::function<void(tcp_comm&)>& work) {
    return test::outcomes_of_tcp(job.options, work);
  }
  test::interposer::session replaced;
  test::listening_job job;
  test::tcp_proxy to_first, to_second;
};

proxy_behaviour good(int) { return {}; }
// The same in both directions.
behaviour both(const test::proxy_rules& rules) {
  return [rules](int) { return proxy_behaviour{rules, rules}; };
}

void check_that_both_name_one(const std::vector<test::outcome>& outcomes) {
  CHECK(outcomes[0].kind == "peer_failed");
  CHECK(outcomes[0] == outcomes[1]);
}

TEST_CASE("E everything is late") {
  const test::deadline limit(20s);
  test::proxy_rules late;
  late.delay = 2ms;
  wire between(both(late), both(late));
  for (const auto& each : between.run(add)) CHECK(each == test::outcome{});
}

TEST_CASE("C14 what a rank sent before it left arrives, though the news of its leaving is there much sooner") {
  const test::deadline limit(40s);
  test::proxy_rules late;
  late.delay = 40ms;
  for (const int root : {0, 1}) {
    CAPTURE(root);
    wire between(good, both(late));
    for (auto& each : between.job.options) each.heartbeat = 5s;
    const auto outcomes = between.run([root](tcp_comm& comm) {
      std::vector<std::int32_t> values(100, comm.rank() == root ? 7 : 0);
      tutti::broadcast(comm, values, root);
      if (values.back() != 7) throw std::runtime_error("wrong value");
    });
    for (const auto& each : outcomes) CHECK(each == test::outcome{});
  }
}

TEST_CASE("C5 the first connections are reset, after any number of bytes: who connects tries again") {
  const test::deadline limit(40s);
  for (const std::uint64_t after : {0U, 1U, 255U, 256U, 257U}) {
    CAPTURE(after);
    const behaviour first_are_reset = [after](int i) {
      proxy_behaviour b;
      if (i < 2) b.onwards.reset_after = b.back.reset_after = after;
      return b;
    };
    const test::interposer::session replaced;
    test::listening_job job(2);
    // Once the whole hello has come through, what is broken is a rank that has come.
    const bool come = after > 256;
    for (auto& each : job.options) each.start_timeout = come ? 500ms : 10s;
    // On the way to the rendezvous, and to either for data.
    const test::tcp_proxy to_first(job.port(0), first_are_reset), to_second(job.port(1), first_are_reset);
    test::interposer::redirect(job.port(0), to_first.port());
    test::interposer::redirect(job.port(1), to_second.port());
    const auto outcomes = test::outcomes_of_tcp(job.options, add);
    for (const auto& each : outcomes) {
      if (come)
        CHECK((each.kind == "none" || each.kind == "peer_failed" || each.kind == "timed_out"));
      else
        CHECK(each == test::outcome{});
    }
    CHECK(to_first.connections() >= (come ? 1 : 3));
  }
}

TEST_CASE("E a data connection that is reset in the middle") {
  const test::deadline limit(40s);
  for (const std::uint64_t after : {1'000U, 100'000U}) {
    CAPTURE(after);
    test::proxy_rules cut;
    cut.reset_after = after;
    wire between(good, both(cut));
    const auto outcomes = between.run([](tcp_comm& comm) {
      for (;;) add(comm);
    });
    check_that_both_name_one(outcomes);
    CHECK(outcomes[0].text.find("lost its connection") != std::string::npos);
  }
}

TEST_CASE("E a data connection that ends in the middle of a message") {
  const test::deadline limit(40s);
  for (const std::uint64_t after : {1'000U, 100'000U}) {
    CAPTURE(after);
    test::proxy_rules cut;
    cut.half_close_after = after;
    wire between(good, both(cut));
    const auto outcomes = between.run([](tcp_comm& comm) {
      for (;;) add(comm);
    });
    check_that_both_name_one(outcomes);
    CHECK(outcomes[0].text.find("lost its connection") != std::string::npos);
  }
}

TEST_CASE("E a data connection that swallows everything: a deadline tells, with a text that both have") {
  const test::deadline limit(40s);
  test::proxy_rules hole;
  hole.blackhole_after = 100'000;
  wire between(good, both(hole));
  for (auto& each : between.job.options) each.heartbeat = 30s;
  const auto outcomes = between.run([](tcp_comm& comm) {
    comm.timeout(300ms);
    for (;;) add(comm);
  });
  CHECK(outcomes[0].kind == "timed_out");
  CHECK(outcomes[0] == outcomes[1]);
}

TEST_CASE("E a data connection that swallows everything: after a heartbeat both say so, without a deadline") {
  const test::deadline limit(40s);
  // In the middle of a message, before the first, in it, and what confirms the connection.
  constexpr std::uint64_t first = 320 + tutti::detail::tcp_header::size;
  for (const std::uint64_t after : {std::uint64_t{100'000}, std::uint64_t{320}, first, std::uint64_t{260}}) {
    CAPTURE(after);
    test::proxy_rules hole;
    hole.blackhole_after = after;
    const bool both_ways = after != first;
    wire between(good, [=](int) { return proxy_behaviour{hole, both_ways ? hole : test::proxy_rules{}}; });
    for (auto& each : between.job.options) each.heartbeat = 200ms;
    const auto outcomes = between.run([](tcp_comm& comm) {
      for (;;) add(comm);
    });
    check_that_both_name_one(outcomes);
    CAPTURE(outcomes[0].text);
    CHECK(outcomes[0].text.find(" lost its connection to rank ") != std::string::npos);
    CHECK(outcomes[0].text.find("nothing of what that rank has written has come for 200 ms") != std::string::npos);
  }
}

TEST_CASE("E a data connection that swallows everything: ranks that have nothing to do with it say the same") {
  const test::deadline limit(40s);
  for (const int root : {0, 1}) {
    CAPTURE(root);
    test::proxy_rules hole;
    hole.blackhole_after = 3'000'000;
    wire between(good, both(hole), 3);
    for (auto& each : between.job.options) each.heartbeat = 200ms;
    const auto outcomes = between.run([root](tcp_comm& comm) {
      std::vector<std::int32_t> values(200'000);
      for (;;) tutti::broadcast(comm, values, root);
    });
    check_that_both_name_one(outcomes);
    CHECK(outcomes[2] == outcomes[0]);
    CHECK(outcomes[0].text.find("has come for 200 ms") != std::string::npos);
  }
}

TEST_CASE("E no false alarm: a rank computes for several heartbeats, and a slow way takes as long for one message") {
  const test::deadline limit(60s);
  test::proxy_rules slow;
  slow.per_call = 2'000;
  slow.delay = 4ms;
  wire between(good, both(slow));
  for (auto& each : between.job.options) each.heartbeat = 100ms;
  const auto outcomes = between.run([](tcp_comm& comm) {
    add(comm);
    for (const int busy : {0, 1}) {
      // The other one waits to receive, or for room to send: more than the system keeps.
      std::vector<std::int32_t> values(1'500'000, 7);
      const auto begin = std::chrono::steady_clock::now();
      while (comm.rank() == busy && std::chrono::steady_clock::now() - begin < 300ms) std::this_thread::yield();
      tutti::broadcast(comm, values, busy);
      while (comm.rank() == busy && std::chrono::steady_clock::now() - begin < 600ms) std::this_thread::yield();
      tutti::broadcast(comm, values, 1 - busy);
    }
  });
  for (const auto& each : outcomes) CHECK(each == test::outcome{});
}

TEST_CASE("A the connection by which they tell how they are is reset, or ends") {
  const test::deadline limit(40s);
  for (const bool reset : {true, false}) {
    CAPTURE(reset);
    test::proxy_rules cut;
    (reset ? cut.reset_after : cut.half_close_after) = 2'000;  // after the start, by heartbeats or what they tell
    wire between(both(cut), good);
    for (auto& each : between.job.options) each.heartbeat = 60ms;
    const auto outcomes = between.run([](tcp_comm& comm) {
      for (;;) add(comm);
    });
    // Where neither can tell the other, each names whom it does not hear. Where one direction goes on, who sees the end
    // of the other first tells.
    const bool each_other = outcomes[0].peer == 1 && outcomes[1].peer == 0;
    CHECK(outcomes[0].kind == "peer_failed");
    CHECK(outcomes[1].kind == "peer_failed");
    CHECK((each_other || (!reset && outcomes[0] == outcomes[1])));
  }
}

TEST_CASE("E nothing gets through any more, and nothing says so: the heartbeat tells") {
  const test::deadline limit(40s);
  wire between(good, good);
  const test::channel working;
  std::thread cut([&] {
    for (int r = 0; r < 2; ++r) working.hear<char>();
    between.to_first.blackhole();
    between.to_second.blackhole();
  });
  const auto outcomes = between.run([&](tcp_comm& comm) {
    add(comm);
    working.say_value('w');
    for (;;) add(comm);
  });
  cut.join();
  for (int r = 0; r < 2; ++r) {
    CAPTURE(r);
    const test::outcome& mine = outcomes[static_cast<std::size_t>(r)];
    CHECK(mine.kind == "peer_failed");
    CHECK(mine.peer == 1 - r);
    CHECK(mine.text.find("silent for 300 ms") != std::string::npos);
  }
}

TEST_CASE("C the start goes into a hole: both say who has not come, in time") {
  const test::deadline limit(40s);
  for (const std::uint64_t after : {0U, 100U, 256U}) {
    CAPTURE(after);
    test::proxy_rules hole;
    hole.blackhole_after = after;
    wire between(both(hole), both(hole));
    for (auto& each : between.job.options) each.start_timeout = 400ms;
    const auto outcomes = between.run(add);
    for (const auto& each : outcomes) CHECK((each.kind == "timed_out" || each.kind == "peer_failed"));
    CHECK(outcomes[0].peer == 1);
    // Rank 1 names rank 0, unless that could still tell what it is waiting for.
    CHECK((outcomes[1].peer == 0 || outcomes[1] == outcomes[0]));
  }
}

}  // namespace
