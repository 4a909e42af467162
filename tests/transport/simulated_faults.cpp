// SPDX-License-Identifier: BSL-1.0

// What goes wrong under the virtual clock is an error on every rank, at once and the same every time: lost messages,
// crashes, deadlocks, deadlines, calls that do not fit together, exceptions, misuse.

#include "deadline.hpp"
#include "transport/simulated.hpp"

#include <doctest/doctest.h>

#include <pthread.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;
using kind = tutti::simulated_event_kind;

namespace {

using communicator = simulated_communicator;

std::string number(std::uint64_t n) { return std::to_string(n); }

/// A small allreduce, and two barriers in which every rank hears of what went wrong in it. A wrong result is no error
/// of the library's.
template <class A>
void small_program(communicator& comm) {
  const int p = comm.size();
  std::vector<int> data{comm.rank(), 1, 2, comm.rank() + 1};
  tutti::allreduce<A>(comm, data, std::plus{});
  if (data != std::vector<int>{p * (p - 1) / 2, p, 2 * p, p * (p + 1) / 2}) throw std::logic_error("wrong result");
  tutti::barrier(comm);
  tutti::barrier(comm);
}

/// How many messages each rank sends in the allreduce, to all and to each.
template <class A>
std::vector<std::vector<std::uint64_t>> messages_of_allreduce(int ranks) {
  std::vector<std::vector<std::uint64_t>> sent(static_cast<std::size_t>(ranks),
                                               std::vector<std::uint64_t>(static_cast<std::size_t>(ranks)));
  const auto report = tutti::run_simulated(ranks, {.record = true}, [](communicator& comm) {
    std::vector<int> data(4);
    tutti::allreduce<A>(comm, data, std::plus{});
  });
  for (const auto& e : report.events)
    if (e.kind == kind::sent) ++sent[static_cast<std::size_t>(e.from)][static_cast<std::size_t>(e.to)];
  return sent;
}

template <class F>
void for_each_allreduce(F&& f) {
  f.template operator()<tutti::ring>();
  f.template operator()<tutti::flat>();
  f.template operator()<tutti::naive>();
  f.template operator()<tutti::circulant>();
  f.template operator()<tutti::recursive_doubling>();
  f.template operator()<tutti::halving_doubling>();
  f.template operator()<tutti::binomial>();
}

/// Everybody ended in the same way; returns it.
outcome same_on_all(const simulated_outcomes& ended) {
  for (const outcome& o : ended.of) CHECK(o == ended.of[0]);
  return ended.of[0];
}

}  // namespace

TEST_CASE("a crash at each message of a small allreduce is peer_failed on every other rank, every time the same") {
  const deadline limit(60s);
  for_each_allreduce([&]<class A>() {
    const std::string name(tutti::name_of<A>());
    CAPTURE(name);
    const auto sent = messages_of_allreduce<A>(3);
    int crashes = 0;
    for (int bad = 0; bad < 3; ++bad) {
      const auto& mine = sent[static_cast<std::size_t>(bad)];
      const std::uint64_t messages = mine[0] + mine[1] + mine[2];
      for (std::uint64_t k = 0; k < messages; ++k) {
        CAPTURE(bad);
        CAPTURE(k);
        const tutti::simulated_options options{
            .seed = k + 1, .jitter = 1e-6, .crash = {{.rank = bad, .message = k}}, .record = true};
        const auto ended = outcomes_of_simulated(3, options, small_program<A>);
        const auto again = outcomes_of_simulated(3, options, small_program<A>);
        CHECK(ended.run == outcome{});  // the ranks have dealt with it
        CHECK(ended.of == again.of);
        CHECK(ended.report.trace == again.report.trace);
        CHECK(ended.report.events == again.report.events);
        for (int rank = 0; rank < 3; ++rank) {
          const outcome& o = ended.of[static_cast<std::size_t>(rank)];
          CAPTURE(o);
          CHECK(o.kind == (rank == bad ? "killed" : "peer_failed"));
          if (rank == bad) continue;
          CHECK(o.peer == bad);
          CHECK(contains(o.text, "rank " + number(static_cast<unsigned>(bad)) + " crashed before it sent its message " +
                                     number(k) + ", to rank "));
          CHECK(contains(o.text, " of allreduce of 4 x int"));
        }
        const auto crash = std::find_if(ended.report.events.begin(), ended.report.events.end(),
                                        [](const auto& e) { return e.kind == kind::crashed; });
        REQUIRE(crash != ended.report.events.end());
        CHECK(crash->from == bad);
        // If nobody deals with it, the run ends by it.
        const auto undealt = outcomes_of_simulated(3, options, small_program<A>, true);
        CHECK(undealt.run.kind == "peer_failed");
        CHECK(undealt.run.peer == bad);
        ++crashes;
      }
    }
    CHECK(crashes >= 4);
  });
}

TEST_CASE("a rank that crashes stays dead, even if it catches everything") {
  const deadline limit(60s);
  int deaths = 0;
  const auto ended = outcomes_of_simulated(3, {.crash = {{.rank = 1, .message = 2}}}, [&](communicator& comm) {
    if (comm.rank() == 1) {
      for (int attempt = 0; attempt < 3; ++attempt) {
        try {
          for (;;) tutti::barrier<tutti::dissemination>(comm);
        } catch (const std::exception&) {
          FAIL_CHECK("a crash is no std::exception");
        } catch (...) {
          ++deaths;
        }
      }
      tutti::barrier(comm);
    }
    for (;;) tutti::barrier<tutti::dissemination>(comm);
  });
  CHECK(deaths == 3);
  CHECK(ended.of[0].kind == "peer_failed");
  CHECK(ended.of[0].peer == 1);
  CHECK(ended.of[2] == ended.of[0]);
}

TEST_CASE("a crash that the program never comes to changes nothing") {
  const deadline limit(60s);
  const auto usual = tutti::run_simulated(3, {}, small_program<tutti::ring>);
  const auto report = tutti::run_simulated(3, {.crash = {{.rank = 1, .message = 1000}}}, small_program<tutti::ring>);
  CHECK(report.trace == usual.trace);
}

TEST_CASE("each message of a small allreduce lost is timed_out on every rank, and names its sender") {
  const deadline limit(60s);
  for_each_allreduce([&]<class A>() {
    const std::string name(tutti::name_of<A>());
    CAPTURE(name);
    const auto sent = messages_of_allreduce<A>(3);
    int drops = 0;
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        for (std::uint64_t k = 0; k < sent[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]; ++k) {
          CAPTURE(from);
          CAPTURE(to);
          CAPTURE(k);
          const tutti::simulated_options options{
              .seed = k + 1, .jitter = 1e-6, .drop = {{.from = from, .to = to, .message = k}}};
          const auto ended = outcomes_of_simulated(3, options, small_program<A>);
          CHECK(ended.report.trace == outcomes_of_simulated(3, options, small_program<A>).report.trace);
          const outcome end = same_on_all(ended);
          CAPTURE(end);
          CHECK(end.kind == "timed_out");
          CHECK(end.peer == from);
          CHECK(contains(end.text, "rank " + number(static_cast<unsigned>(from)) + " was late: rank "));
          CHECK(contains(end.text, " waited 1000 ms for rank "));
          CHECK(contains(end.text,
                         "its message " + number(k) + " to rank " + number(static_cast<unsigned>(to)) + " was lost"));
          CHECK(ended.report.makespan >= 1.0);
          CHECK(ended.report.makespan < 1.001);
          ++drops;
        }
      }
    }
    CHECK(drops >= 4);
  });
}

TEST_CASE("a lost message without a deadline is a deadlock, which is found at once") {
  const deadline limit(60s);
  const auto text_of = [](auto&& work) {
    const auto ended =
        outcomes_of_simulated(3, {.drop = {{.from = 2, .to = 0, .message = 0}}}, [&](communicator& comm) {
          comm.timeout(0s);
          work(comm);
        });
    const outcome end = same_on_all(ended);
    CHECK(end.kind == "timed_out");
    CHECK(ended.report.makespan < 1.0);  // of virtual time, most of it of looks in vain
    CAPTURE(end);
    CHECK(contains(end.text, "deadlock: nothing is under way, and rank 0 waits for rank 2 in round 0 of "));
    CHECK(contains(end.text, "; rank 1 waits for rank "));
    CHECK(contains(end.text, "; rank 2 waits for rank "));
  };
  text_of([](communicator& comm) {
    tutti::allreduce<tutti::ring>(comm, std::vector<int>(6), std::plus{});
    tutti::barrier(comm);
  });
  text_of([](communicator& comm) {
    std::vector<int> data(6);
    auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
    pending.wait();
    tutti::barrier(comm);
  });
  // One who looks in vain for ever is no better.
  text_of([](communicator& comm) {
    std::vector<int> data(6);
    auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
    while (!pending.test()) {
    }
    tutti::barrier(comm);
  });
}

TEST_CASE("a lost message is named however many collectives are pending, and whichever of them is waited for") {
  const deadline limit(60s);
  for (const int ranks : {3, 4}) {
    for (const std::size_t first : {0U, 1U, 2U}) {
      const auto program = [&](communicator& comm) {
        std::vector<int> data[3] = {std::vector<int>(4), std::vector<int>(40), std::vector<int>(400)};
        std::vector<tutti::pending<communicator>> pending;
        pending.push_back(tutti::iallreduce<tutti::ring>(comm, data[0], std::plus{}));
        // One rank does not begin the others before the first has ended.
        if (comm.rank() == static_cast<int>(first)) pending[0].wait();
        pending.push_back(tutti::iallreduce<tutti::recursive_doubling>(comm, data[1], std::plus{}));
        pending.push_back(tutti::iallreduce<tutti::circulant>(comm, data[2], std::plus{}));
        tutti::barrier<tutti::dissemination>(comm);
        // Each rank waits for another one first; some look now and then.
        const std::size_t mine = first + static_cast<std::size_t>(comm.rank());
        for (std::size_t i = 0; i < 3; ++i) {
          auto& one = pending[(mine + i) % 3];
          if (first == 1 && comm.rank() == 0) {
            while (!one.test()) comm.transport().spend(1e-3);
          } else {
            one.wait();
          }
        }
      };
      const auto usual = tutti::run_simulated(ranks, {.record = true}, program);
      std::map<std::pair<int, int>, std::uint64_t> sent;
      for (const auto& e : usual.events)
        if (e.kind == kind::sent) ++sent[{e.from, e.to}];
      for (const auto& [pair, messages] : sent) {
        for (std::uint64_t k = 0; k < messages; ++k) {
          const int from = pair.first;
          const int to = pair.second;
          const std::string lost = "essage " + number(k) + " to rank " + std::to_string(to) + " was lost";
          const bool endless = k % 2 == 1;
          CAPTURE(ranks);
          CAPTURE(first);
          CAPTURE(from);
          CAPTURE(lost);
          CAPTURE(endless);
          const auto ended =
              outcomes_of_simulated(ranks, {.drop = {{.from = from, .to = to, .message = k}}}, [&](communicator& comm) {
                if (endless) comm.timeout(0s);
                program(comm);
                for (int i = 0; i < 3; ++i) tutti::barrier(comm);
              });
          for (const outcome& o : ended.of) {
            CAPTURE(o);
            CHECK(o.kind == "timed_out");
            CHECK(o.peer == from);
            CHECK(contains(o.text, lost));
          }
        }
      }
    }
  }
}

namespace {

constexpr tutti::call_signature nothing{"nothing", "by hand", "std::byte", "", 1};

/// One lane by hand: a schedule that does not fit together.
void wait_by_hand(communicator& comm, int peer) {
  auto& lane = comm.lane();
  lane.open(comm.next_call(nothing, 0, -1, {"hand.cpp", 7}));
  lane.begin_round();
  std::byte in{};
  while (!lane.try_recv(peer, &in, 1)) lane.idle();
}

}  // namespace

TEST_CASE("a deadlock says who waits for whom, at which step") {
  const deadline limit(60s);
  const auto end = same_on_all(
      outcomes_of_simulated(3, {}, [](communicator& comm) { wait_by_hand(comm, (comm.rank() + 1) % comm.size()); }));
  CHECK(end.kind == "timed_out");
  CHECK(
      contains(end.text,
               "deadlock: nothing is under way, and rank 0 waits for rank 1 in round 0 of nothing of 0 x std::byte (1 "
               "bytes each) by by hand, call 1 at hand.cpp:7; rank 1 waits for rank 2 in round 0 of"));
  CHECK(contains(end.text, "; rank 2 waits for rank 0 in round 0 of"));
  // Some are done, and the others wait for each other.
  const auto some = outcomes_of_simulated(4, {}, [](communicator& comm) {
    if (comm.rank() >= 2) return;
    wait_by_hand(comm, 1 - comm.rank());
  });
  CHECK(some.of[0].kind == "timed_out");
  CHECK(contains(some.of[0].text, "; rank 2 has left; rank 3 has left"));
  // Many are not all told of.
  const auto many = same_on_all(
      outcomes_of_simulated(40, {}, [](communicator& comm) { wait_by_hand(comm, (comm.rank() + 1) % comm.size()); }));
  CHECK(contains(many.text, "; rank 15 waits for rank 16 in round 0 of"));
  CHECK(contains(many.text, "; and 24 more"));
}

TEST_CASE("the memory of a large message is read late, and a message of another size is refused") {
  const deadline limit(60s);
  tutti::run_simulated(2, {}, [](communicator& comm) {
    auto& lane = comm.lane();
    lane.open(comm.next_call(nothing, 0, -1, {"hand.cpp", 7}));
    lane.begin_round();
    std::byte data{1};
    if (comm.rank() == 0) {
      CHECK(lane.send(1, &data, 1, true));
      data = std::byte{2};
      CHECK_FALSE(lane.send(1, &data, 1, false));
      data = std::byte{3};  // too early: the other gets this
      CHECK_FALSE(lane.settled());
      while (!lane.settled()) lane.idle();
      data = std::byte{4};
    } else {
      for (const int expected : {1, 3}) {
        while (!lane.try_recv(0, &data, 1)) lane.idle();
        CHECK(data == std::byte(expected));
      }
      lane.awake();
    }
  });
  const auto ended = outcomes_of_simulated(2, {}, [](communicator& comm) {
    auto& lane = comm.lane();
    lane.open(comm.next_call(nothing, 0, -1, {"hand.cpp", 7}));
    lane.begin_round();
    std::byte data[2]{};
    if (comm.rank() == 0) lane.send(1, data, 2, true);
    while (comm.rank() == 1 && !lane.try_recv(0, data, 1)) lane.idle();
    tutti::barrier(comm);
  });
  const outcome end = same_on_all(ended);
  CHECK(end.kind == "mismatch");
  CHECK(contains(end.text, "rank 0 sent 2 bytes where rank 1 expects 1 in round 0 of nothing"));
}

TEST_CASE("deadlines count in virtual time") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const int late = ranks - 1;
    const auto ended = outcomes_of_simulated(ranks, {}, [&](communicator& comm) {
      tutti::barrier(comm);
      comm.timeout(30min);
      if (comm.rank() == late) comm.transport().spend(86400);
      tutti::barrier(comm);
    });
    const outcome end = same_on_all(ended);
    CAPTURE(end);
    CHECK(end.kind == "timed_out");
    CHECK(end.peer == late);
    CHECK(contains(end.text, "rank " + number(static_cast<unsigned>(late)) + " was late: rank "));
    CHECK(contains(end.text, " waited 1800000 ms for rank "));
    CHECK(contains(end.text, "call 2 at " __FILE__));
    CHECK(contains(end.text, ", which that rank has not called"));
    CHECK(ended.report.makespan == doctest::Approx(86400));
  }
  // What is less than a nanosecond is not for ever.
  const auto short_of_time = outcomes_of_simulated(2, {}, [](communicator& comm) {
    comm.timeout(std::chrono::duration<double>(1e-12));
    if (comm.rank() == 1) comm.transport().spend(1.0);
    tutti::barrier(comm);
  });
  CHECK(same_on_all(short_of_time).kind == "timed_out");
  // In time, if only just; the limit is for one call, and from options or the call.
  tutti::run_simulated(3, {.timeout = 1s}, [](communicator& comm) {
    for (int call = 0; call < 5; ++call) {
      if (comm.rank() == call % 3) comm.transport().spend(0.9);
      tutti::barrier(comm);
    }
    comm.timeout(0s);
    if (comm.rank() == 1) comm.transport().spend(1e6);
    tutti::barrier(comm);
    for (const auto longest : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds(24h)}) {
      comm.timeout(longest);
      if (comm.rank() == 1) comm.transport().spend(1000);
      tutti::barrier(comm);
    }
  });
  const auto by_options = outcomes_of_simulated(2, {.timeout = 1s}, [](communicator& comm) {
    if (comm.rank() == 1) comm.transport().spend(1.1);
    tutti::barrier(comm);
  });
  CHECK(same_on_all(by_options).kind == "timed_out");
  // A rank that looks now and then has a deadline, too; one that does something else has none.
  const auto looking = outcomes_of_simulated(2, {.timeout = 1s}, [](communicator& comm) {
    std::vector<int> data(3);
    auto pending = tutti::iallreduce(comm, data, std::plus{});
    if (comm.rank() == 0) comm.transport().spend(10.0);
    pending.wait();
    if (comm.rank() == 1) comm.transport().spend(20.0);
    pending = tutti::iallreduce(comm, data, std::plus{});
    while (!pending.test()) comm.transport().spend(0.01);
    tutti::barrier(comm);
  });
  CHECK(same_on_all(looking).kind == "timed_out");
  CHECK(same_on_all(looking).peer == 1);
}

TEST_CASE("a rank that is slow inside its operation is named by the one that waits for it") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 4}) {
    const auto ended = outcomes_of_simulated(ranks, {.timeout = 1s}, [&](communicator& comm) {
      const auto op = tutti::commutative([&](int a, int b) {
        if (comm.rank() == 1) comm.transport().spend(5.0);
        return a + b;
      });
      tutti::allreduce<tutti::flat>(comm, std::vector<int>(static_cast<std::size_t>(ranks)), op);
      tutti::barrier(comm);
    });
    CHECK(same_on_all(ended).kind == "timed_out");
    CHECK(same_on_all(ended).peer == 1);
  }
}

TEST_CASE("calls that do not fit together are a mismatch on every rank") {
  const deadline limit(60s);
  using call = std::function<void(communicator&)>;
  const std::vector<std::pair<call, call>> pairs{
      {[](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); },
       [](communicator& c) { tutti::allreduce(c, std::vector<int>(4), std::plus{}); }},
      {[](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); },
       [](communicator& c) { tutti::allreduce(c, std::vector<float>(3), std::plus{}); }},
      {[](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); },
       [](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::multiplies{}); }},
      {[](communicator& c) { tutti::allreduce<tutti::ring>(c, std::vector<int>(3), std::plus{}); },
       [](communicator& c) { tutti::allreduce<tutti::naive>(c, std::vector<int>(3), std::plus{}); }},
      {[](communicator& c) { tutti::broadcast(c, std::vector<int>(3), 0); },
       [](communicator& c) { tutti::broadcast(c, std::vector<int>(3), 1); }},
      {[](communicator& c) { tutti::broadcast(c, std::vector<int>(3), 0); },
       [](communicator& c) { tutti::reduce(c, std::vector<int>(3), std::plus{}, 0); }},
      {[](communicator& c) {
         tutti::barrier(c);
         tutti::broadcast(c, std::vector<int>(3), 0);
       },
       [](communicator& c) {
         tutti::broadcast(c, std::vector<int>(3), 0);
         tutti::barrier(c);
       }},
      {[](communicator& c) {
         std::vector<int> data(3);
         tutti::iallreduce(c, data, std::plus{}).wait();
       },
       [](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); }},
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const int ranks : {2, 3, 5}) {
      for (int odd = 0; odd < ranks; ++odd) {
        CAPTURE(i);
        CAPTURE(ranks);
        CAPTURE(odd);
        const auto ended = outcomes_of_simulated(ranks, {.seed = i}, [&](communicator& comm) {
          tutti::barrier(comm);
          (comm.rank() == odd ? pairs[i].second : pairs[i].first)(comm);
          tutti::barrier(comm);
          tutti::barrier(comm);
        });
        const outcome end = same_on_all(ended);
        CAPTURE(end);
        CHECK(end.kind == "mismatch");
        CHECK(contains(end.text, "rank " + number(static_cast<unsigned>(odd)) + " called "));
        CHECK(contains(end.text, __FILE__));
      }
    }
  }
}

TEST_CASE("a call that the others never made is found in the end") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    const auto ended = outcomes_of_simulated(ranks, {}, [](communicator& comm) {
      tutti::barrier(comm);
      if (comm.rank() == 1) tutti::broadcast(comm, std::vector<int>(3), 1, {"odd.cpp", 2});
    });
    CHECK(same_on_all(ended) == outcome{});
    CHECK(ended.run.kind == "mismatch");
    CHECK(contains(ended.run.text, "rank 0 called nothing that fits; rank 1 called broadcast of 3 x int"));
    CHECK(contains(ended.run.text, "odd.cpp:2"));
  }
}

TEST_CASE("a rank that looks for what another sends a day later gets it, and does not take a day") {
  const deadline limit(60s);
  tutti::run_simulated(3, {}, [](communicator& comm) {
    std::vector<int> data{comm.rank()};
    tutti::barrier(comm);
    if (comm.rank() == 2) comm.transport().spend(86400);
    auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
    while (!pending.test()) {
      if (comm.rank() == 1) comm.transport().spend(1e-7);
    }
    CHECK(data[0] == 3);
    CHECK(comm.transport().now() >= 86400);
    CHECK(comm.transport().now() < 86401);
  });
}

TEST_CASE("a root whose sends cost it no time runs ahead of the others, not without bound") {
  const deadline limit(60s);
  std::array<int, 2> calls{};
  int ahead = 0;
  tutti::run_simulated(2, {.net = {.overhead = 0}}, [&](communicator& comm) {
    for (int call = 0; call < 12000; ++call) {
      int data = comm.rank() == 0 ? call : -1;
      tutti::broadcast<tutti::binomial>(comm, std::span(&data, 1), 0);
      if (data != call) throw std::logic_error("wrong");
      ++calls[static_cast<std::size_t>(comm.rank())];
      ahead = std::max(ahead, calls[0] - calls[1]);
    }
  });
  CHECK(ahead > 100);
  CHECK(ahead < 5000);
}

TEST_CASE("a root that runs ahead of a mismatch is stopped by its messages") {
  const deadline limit(60s);
  // The others wait elsewhere, for more calls than are remembered.
  const auto ended = outcomes_of_simulated(2, {}, [](communicator& comm) {
    if (comm.rank() == 0) {
      for (;;) tutti::broadcast(comm, std::vector<int>(3), 0);
    }
    comm.transport().spend(1e-3);
    tutti::broadcast(comm, std::vector<int>(4), 0);
  });
  const outcome end = same_on_all(ended);
  CAPTURE(end);
  CHECK(end.kind == "mismatch");
}

TEST_CASE("a rank that throws ends the others, and the run rethrows what it threw") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    for (const bool in_operation : {false, true}) {
      const auto ended = outcomes_of_simulated(
          ranks, {},
          [&](communicator& comm) {
            tutti::barrier(comm);
            const auto op = tutti::commutative([&](int a, int b) {
              if (in_operation && comm.rank() == 1) throw std::runtime_error("no shoes");
              return a + b;
            });
            if (!in_operation && comm.rank() == 1) throw std::runtime_error("no shoes");
            std::vector<int> data(static_cast<std::size_t>(500 * ranks));
            tutti::allreduce<tutti::ring>(comm, data, op);
            tutti::barrier(comm);
          },
          true);
      CHECK(ended.run.text == "no shoes");
      for (int rank = 0; rank < ranks; ++rank) {
        const outcome& o = ended.of[static_cast<std::size_t>(rank)];
        if (rank == 1) continue;
        CHECK(o.kind == "peer_failed");
        CHECK(o.peer == 1);
        CHECK(contains(o.text, "no shoes"));
      }
    }
  }
  CHECK_THROWS_AS(tutti::run_simulated(3, {},
                                       [](communicator& comm) {
                                         if (comm.rank() == 2) throw 42;
                                         tutti::barrier(comm);
                                       }),
                  int);
}

TEST_CASE("a pending collective that is destroyed before it has finished fails the group") {
  const deadline limit(60s);
  const auto ended = outcomes_of_simulated(3, {}, [](communicator& comm) {
    {
      std::vector<int> data(5000);
      auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
      if (comm.rank() != 1) pending.wait();
    }
    tutti::barrier(comm);
  });
  for (const outcome& o : ended.of) {
    CHECK(o.kind == "peer_failed");
    CHECK(o.peer == 1);
  }
}

TEST_CASE("a rank that leaves early is an error for those who wait for it, but what it sent still arrives") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    const int gone = ranks - 1;
    const auto ended = outcomes_of_simulated(ranks, {}, [&](communicator& comm) {
      tutti::barrier(comm);
      if (comm.rank() != gone) tutti::allreduce(comm, std::vector<int>(3), std::plus{});
    });
    for (int rank = 0; rank < gone; ++rank) {
      const outcome& o = ended.of[static_cast<std::size_t>(rank)];
      CHECK(o.kind == "peer_failed");
      CHECK(o.peer == gone);
      CHECK(contains(o.text, "rank " + number(static_cast<unsigned>(gone)) + " left while rank "));
    }
    CHECK(ended.of[static_cast<std::size_t>(gone)] == outcome{});
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      tutti::run_simulated(ranks, {.seed = seed, .jitter = 1e-3}, [&](communicator& comm) {
        std::vector<int> all(static_cast<std::size_t>(ranks));
        all[static_cast<std::size_t>(comm.rank())] = comm.rank() + 1;
        tutti::gather(comm, all, 0);
        for (int rank = 0; comm.rank() == 0 && rank < ranks; ++rank)
          CHECK(all[static_cast<std::size_t>(rank)] == rank + 1);
      });
    }
  }
}

TEST_CASE("a wrong call that one rank can see sends nothing, and the communicator stays usable") {
  const deadline limit(60s);
  const auto report = tutti::run_simulated(3, {}, [](communicator& comm) {
    CHECK_THROWS_AS(tutti::broadcast(comm, std::vector<int>(3), 3), tutti::usage_error);
    const std::string rank = number(static_cast<unsigned>(comm.rank()));
    const auto refuses_to_spend = [&](double seconds, const char* text) {
      const auto end = outcome_of([&] { comm.transport().spend(seconds); });
      CHECK(end.kind == "usage_error");
      CHECK(contains(end.text, "spend on rank " + rank + " of 3: " + text +
                                   " seconds, must be at least 0 and at most 2.2464e+06"));
    };
    refuses_to_spend(-1.0, "-1");
    refuses_to_spend(-0.0025, "-0.0025");
    refuses_to_spend(std::numeric_limits<double>::quiet_NaN(), "nan");
    refuses_to_spend(std::numeric_limits<double>::infinity(), "inf");
    refuses_to_spend(-std::numeric_limits<double>::infinity(), "-inf");
    refuses_to_spend(2246401.0, "2.2464e+06");
    comm.transport().spend(0.0);
    comm.transport().spend(-0.0);
    CHECK(comm.transport().now() == 0);
    for (const auto wrong : {-1ns, std::chrono::nanoseconds::min()})
      CHECK_THROWS_AS(comm.timeout(wrong), tutti::usage_error);
    const auto end = outcome_of([&] { comm.timeout(-1500ms); });
    CHECK(end.kind == "usage_error");
    CHECK(contains(end.text, "timeout on rank " + rank + " of 3: -1.5 seconds, must be at least 0, which is for ever"));
    tutti::barrier<tutti::dissemination>(comm);
  });
  CHECK(report.messages == 6);
}

TEST_CASE("options that make no sense are refused") {
  const deadline limit(60s);
  const auto refusal = [](const tutti::simulated_options& options) {
    int called = 0;
    const auto end = outcome_of([&] { tutti::run_simulated(3, options, [&](communicator&) { ++called; }); });
    CHECK(called == 0);
    CHECK(end.kind == "usage_error");
    return end.text;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double wrong : {-1e-9, nan, infinite}) {
    CHECK(contains(refusal({.net = {.latency = wrong}}), "run_simulated: a time of the network"));
    CHECK(contains(refusal({.net = {.overhead = wrong}}), "a time of the network"));
    CHECK(contains(refusal({.net = {.gap = wrong}}), "a time of the network"));
    CHECK(contains(refusal({.net = {.byte = wrong}}), "a time of the network"));
    CHECK(contains(refusal({.net = {.fold = wrong}}), "a time of the network"));
    CHECK(contains(refusal({.jitter = wrong}), "the jitter"));
    CHECK(contains(refusal({.reorder = {.probability = wrong}}), "reorder.probability is not in [0, 1]"));
    CHECK(contains(refusal({.reorder = {.delay = wrong}}), "reorder.delay"));
  }
  CHECK(contains(refusal({.net = {.ports = 0}}), "the network has 0 ports, must have at least 1 and at most 4096"));
  CHECK(
      contains(refusal({.net = {.ports = 4097}}), "the network has 4097 ports, must have at least 1 and at most 4096"));
  CHECK(contains(refusal({.reorder = {.probability = 1.5}}), "reorder.probability is not in [0, 1]"));
  CHECK(contains(refusal({.drop = {{.from = 3}}}), "drop.from is rank 3, not in [0, 3)"));
  CHECK(contains(refusal({.drop = {{.to = -1}}}), "drop.to is rank -1, not in [0, 3)"));
  CHECK(contains(refusal({.crash = {{.rank = 7}}}), "crash.rank is rank 7, not in [0, 3)"));
  CHECK(contains(refusal({.timeout = -1s}), "the timeout is negative"));
  const auto none = outcome_of([] { tutti::run_simulated(0, {}, [](communicator&) {}); });
  CHECK(none.kind == "usage_error");
  CHECK(contains(none.text, "number of ranks is 0, must be at least 1"));
}

TEST_CASE("ranks whose threads have begun do not wait for those whose threads could not") {
  const deadline limit(60s);
  for (const int refused : {1, 2, 3}) {
    CAPTURE(refused);
    tutti::detail::simulated_group group(4, {});
    std::vector<outcome> ends(static_cast<std::size_t>(refused));
    std::vector<std::thread> begun;
    for (int rank = 0; rank < refused; ++rank)
      begun.emplace_back([&, rank] {
        group.enter(rank);
        ends[static_cast<std::size_t>(rank)] = outcome_of([&] { group.check(rank); });
        group.leave(rank);
      });
    group.fail({tutti::errc::peer_failed, refused, "no threads"});
    group.leave(refused);
    for (auto& thread : begun) thread.join();
    for (const outcome& end : ends) CHECK(end.peer == refused);
  }
}

#if defined(__GLIBC__)
TEST_CASE("threads that the system refuses are an error") {
  const deadline limit(60s);
  pthread_attr_t before;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  pthread_attr_t too_large = before;
  REQUIRE(pthread_attr_setstacksize(&too_large, std::size_t{1} << 50) == 0);
  REQUIRE(pthread_setattr_default_np(&too_large) == 0);
  int called = 0;
  const outcome end = outcome_of([&] { tutti::run_simulated(4, {}, [&](communicator&) { ++called; }); });
  CHECK(pthread_setattr_default_np(&before) == 0);
  CHECK(end.kind == "resource_error");
  CHECK(contains(end.text, "run: the system refused thread 0 of 4: "));
  CHECK(called == 0);
}
#endif
