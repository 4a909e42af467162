// SPDX-License-Identifier: BSL-1.0

// A5, A8, A11: a rank that throws or leaves ends the others' waiting, and names itself.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;
using clock = std::chrono::steady_clock;

/// What a user might throw; not even a std::exception.
struct out_of_coffee {
  int cups;
};

/// Runs and returns what `tutti::run` rethrew, if it was an `out_of_coffee`: the number of cups; else -1.
template <class F>
int cups_of_run(int ranks, F&& work) {
  try {
    tutti::run(ranks, work);
  } catch (const out_of_coffee& e) {
    return e.cups;
  } catch (const std::exception& e) {
    MESSAGE(std::string(e.what()));
  }
  return -1;
}

/// Every way to wait for others.
struct way {
  std::string name;
  std::function<void(communicator&)> wait;
};
const std::vector<way> ways_to_wait{
    {"broadcast", [](communicator& c) { tutti::broadcast(c, std::vector<int>(3), c.size() - 1); }},
    {"scatter",
     [](communicator& c) {
       tutti::scatter(c, std::vector<int>(static_cast<std::size_t>(c.size())), c.size() - 1);
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
    {"reduce_scatter", [](communicator& c) { tutti::reduce_scatter(c, std::vector<int>(30), std::plus{}); }},
    {"allgather", [](communicator& c) { tutti::allgather(c, std::vector<int>(static_cast<std::size_t>(c.size()))); }},
    {"allreduce", [](communicator& c) { tutti::allreduce(c, std::vector<int>(3), std::plus{}); }},
    {"large allreduce by ring",
     [](communicator& c) { tutti::allreduce<tutti::ring>(c, std::vector<int>(50000), std::plus{}); }},
    {"alltoall", [](communicator& c) { tutti::alltoall(c, std::vector<int>(static_cast<std::size_t>(c.size()))); }},
    {"barrier", [](communicator& c) { tutti::barrier(c); }},
    {"iallreduce and wait",
     [](communicator& c) {
       std::vector<int> data(3);
       tutti::iallreduce(c, data, std::plus{}).wait();
     }},
    {"iallreduce and test",
     [](communicator& c) {
       std::vector<int> data(3);
       auto pending = tutti::iallreduce(c, data, std::plus{});
       while (!pending.test()) std::this_thread::sleep_for(100us);
     }},
};

}  // namespace

TEST_CASE("A5 a rank that throws between calls ends every way of waiting for it") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5, 8}) {
    for (const way& w : ways_to_wait) {
      CAPTURE(ranks);
      CAPTURE(w.name);
      std::vector<outcome> of(static_cast<std::size_t>(ranks));
      const int bad = ranks - 1;
      const int cups = cups_of_run(ranks, [&](communicator& comm) {
        // Some may still be in this barrier when the bad one has left it.
        of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] { tutti::barrier(comm); });
        if (comm.rank() == bad) throw out_of_coffee{3};
        if (of[static_cast<std::size_t>(comm.rank())] == outcome{})
          of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] { w.wait(comm); });
        // What was thrown once is thrown by every later call.
        CHECK(outcome_of([&] { tutti::barrier(comm); }) == of[static_cast<std::size_t>(comm.rank())]);
        CHECK(outcome_of([&] { w.wait(comm); }) == of[static_cast<std::size_t>(comm.rank())]);
      });
      CHECK(cups == 3);
      for (int rank = 0; rank < bad; ++rank) {
        const outcome& o = of[static_cast<std::size_t>(rank)];
        CHECK(o.kind == "peer_failed");
        CHECK(o.peer == bad);
        CHECK(contains(o.text, "rank " + std::to_string(bad) + " failed: "));
      }
    }
  }
}

TEST_CASE("A5 a rank that throws before its first call") {
  const deadline limit(30s);
  for (const int ranks : {2, 3, 5}) {
    for (int bad = 0; bad < ranks; ++bad) {
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
        if (comm.rank() == bad) throw std::runtime_error("no shoes");
        tutti::allreduce(comm, std::vector<float>(1000), tutti::average{});
      });
      CHECK(ended.run.kind == "other");
      CHECK(ended.run.text == "no shoes");
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == bad) continue;
        CHECK(ended.of[static_cast<std::size_t>(rank)].kind == "peer_failed");
        CHECK(ended.of[static_cast<std::size_t>(rank)].peer == bad);
        CHECK(contains(ended.of[static_cast<std::size_t>(rank)].text, "no shoes"));
      }
    }
  }
}

TEST_CASE("A5 a rank that throws while the others sleep in their calls wakes them") {
  const deadline limit(30s);
  for (const int ranks : {2, 3, 8}) {
    CAPTURE(ranks);
    std::atomic<clock::time_point> thrown{};
    std::vector<clock::duration> late(static_cast<std::size_t>(ranks));
    const int cups = cups_of_run(ranks, [&](communicator& comm) {
      if (comm.rank() == 1) {
        std::this_thread::sleep_for(300ms);
        thrown = clock::now();
        throw out_of_coffee{1};
      }
      CHECK(outcome_of([&] { tutti::barrier(comm); }).peer == 1);
      late[static_cast<std::size_t>(comm.rank())] = clock::now() - thrown.load();
    });
    CHECK(cups == 1);
    CHECK(*std::max_element(late.begin(), late.end()) < 1s);
  }
}

TEST_CASE("A5 an operation that throws ends the call on every rank, and run rethrows what it threw") {
  const deadline limit(60s);
  // The owner unwinds slowly: the others' peer_failed comes out of their functions first, but it is not what came
  // first.
  struct slow_to_unwind {
    ~slow_to_unwind() { std::this_thread::sleep_for(20ms); }
  };
  for (const int ranks : {2, 3, 5}) {
    for (const int bad : {0, ranks - 1}) {
      for (const std::size_t count : {1U, 500U, 50000U}) {
        CAPTURE(ranks);
        CAPTURE(bad);
        CAPTURE(count);
        std::vector<outcome> of(static_cast<std::size_t>(ranks));
        const int cups = cups_of_run(ranks, [&](communicator& comm) {
          const auto op = tutti::commutative([rank = comm.rank(), bad](int a, int b) {
            if (rank == bad) throw out_of_coffee{2};
            return a + b;
          });
          if (comm.rank() == bad) {
            const slow_to_unwind slow;
            tutti::allreduce<tutti::flat>(comm, std::vector<int>(count * 5), op);
          } else {
            of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
              tutti::allreduce<tutti::flat>(comm, std::vector<int>(count * 5), op);
              tutti::barrier(comm);
            });
            CHECK(outcome_of([&] { tutti::barrier(comm); }) == of[static_cast<std::size_t>(comm.rank())]);
            throw std::runtime_error("a consequence");
          }
        });
        CHECK(cups == 2);
        for (int rank = 0; rank < ranks; ++rank) {
          if (rank == bad) continue;
          const outcome& o = of[static_cast<std::size_t>(rank)];
          CHECK(o.kind == "peer_failed");
          CHECK(o.peer == bad);
          CHECK(contains(o.text, "rank " + std::to_string(bad) + " failed in allreduce of "));
          CHECK(contains(o.text, __FILE__));
        }
      }
    }
  }
}

TEST_CASE("A5 the rank whose operation threw goes on, and its later calls throw what the others' do") {
  const deadline limit(30s);
  for (const int ranks : {2, 4}) {
    const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
      const bool bad = comm.rank() == 1;
      const auto op = tutti::commutative([bad](int a, int b) {
        if (bad) throw std::runtime_error("no shoes");
        return a + b;
      });
      const auto first = outcome_of([&] { tutti::allreduce(comm, std::vector<int>(10), op); });
      if (bad) CHECK(first.text == "no shoes");
      tutti::barrier(comm);
    });
    for (const outcome& o : ended.of) {
      CHECK(o.kind == "peer_failed");
      CHECK(o.peer == 1);
      CHECK(contains(o.text, "no shoes"));
      CHECK(o == ended.run);
    }
  }
}

TEST_CASE("A5 unwinding past a pending collective does not block, and the others hear of it") {
  const deadline limit(30s);
  for (const int ranks : {2, 3, 5}) {
    for (const std::size_t count : {3U, 50000U}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<outcome> of(static_cast<std::size_t>(ranks));
      const int cups = cups_of_run(ranks, [&](communicator& comm) {
        std::vector<int> data(count);
        of[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
          auto pending = tutti::iallreduce<tutti::ring>(comm, data, std::plus{});
          if (comm.rank() == 0) throw out_of_coffee{4};
          pending.wait();
          tutti::barrier(comm);
        });
        if (comm.rank() == 0) throw out_of_coffee{4};
        throw std::runtime_error("a consequence");
      });
      CHECK(cups == 4);
      for (int rank = 1; rank < ranks; ++rank) {
        CHECK(of[static_cast<std::size_t>(rank)].kind == "peer_failed");
        CHECK(of[static_cast<std::size_t>(rank)].peer == 0);
        CHECK(
            contains(of[static_cast<std::size_t>(rank)].text, "rank 0 failed: an exception that is no std::exception"));
      }
    }
  }
}

TEST_CASE("A5 a rank that looks now and then hears of a failure at its next look") {
  const deadline limit(30s);
  std::atomic<bool> failed = false;
  const int cups = cups_of_run(2, [&](communicator& comm) {
    const auto op = tutti::commutative([bad = comm.rank() == 1](int a, int b) {
      if (bad) throw out_of_coffee{5};
      return a + b;
    });
    std::vector<int> data(4);
    if (comm.rank() == 1) {
      const auto end = outcome_of([&] { tutti::iallreduce<tutti::ring>(comm, data, op).wait(); });
      CHECK(end.kind == "other");
      failed = true;
      throw out_of_coffee{5};
    }
    auto pending = tutti::iallreduce<tutti::ring>(comm, data, op);
    while (!failed) std::this_thread::sleep_for(1ms);
    int looks = 0;
    const auto end = outcome_of([&] {
      do {
        ++looks;
      } while (!pending.test());
    });
    CHECK(end.kind == "peer_failed");
    CHECK(looks == 1);
  });
  CHECK(cups == 5);
}

TEST_CASE("A8 two communicators that fail in opposite order") {
  const deadline limit(30s);
  for (int repetition = 0; repetition < 20; ++repetition) {
    using group = tutti::detail::threads_group;
    const auto first = std::make_shared<group>(2);
    const auto second = std::make_shared<group>(2);
    std::vector<std::unique_ptr<communicator>> comms;
    for (const auto& g : {first, second})
      for (int rank = 0; rank < 2; ++rank) comms.push_back(std::make_unique<communicator>(tutti::threads(*g, rank)));
    const auto fail = [](communicator& comm) {
      return outcome_of([&] {
        std::vector<int> data(5000, 1);
        auto pending = tutti::iallreduce(comm, data, std::plus{});
      });  // destroyed before it has finished
    };
    std::vector<outcome> ends(4);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        communicator& one = *comms[rank == 0 ? 0 : 3];
        communicator& other = *comms[rank == 0 ? 2 : 1];
        fail(one);
        ends[2 * rank] = outcome_of([&] { tutti::barrier(other); });
        ends[2 * rank + 1] = outcome_of([&] { tutti::barrier(one); });
      });
    for (auto& rank : ranks) rank.join();
    for (const outcome& end : ends) CHECK(end.kind == "peer_failed");
  }
}

TEST_CASE("A11 a rank that leaves early is an error for those who wait for it") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    for (const way& w : ways_to_wait) {
      CAPTURE(ranks);
      CAPTURE(w.name);
      const int gone = ranks - 1;
      const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
        tutti::barrier(comm);
        if (comm.rank() == gone) return;
        w.wait(comm);
      });
      CHECK(ended.of[static_cast<std::size_t>(gone)].kind == "none");
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == gone);
      CAPTURE(ended.run.text);
      CHECK(contains(ended.run.text, "rank " + std::to_string(gone) + " left while rank "));
      for (int rank = 0; rank < gone; ++rank) CHECK(ended.of[static_cast<std::size_t>(rank)] == ended.run);
    }
  }
}

TEST_CASE("A11 ranks without rows take part in all collectives") {
  const deadline limit(30s);
  for (const int ranks : {1, 2, 3, 5}) {
    tutti::run(ranks, [&](communicator& comm) {
      // Rows are dealt out, and there are fewer than ranks: some have none, and come to every call all the same.
      const std::size_t rows = comm.rank() == 0 ? 3 : 0;
      std::vector<double> sum(2, static_cast<double>(rows));
      tutti::allreduce(comm, sum, std::plus{});
      CHECK(sum == std::vector<double>(2, 3.0));
      std::vector<int> none;
      tutti::broadcast(comm, none, 0);
      tutti::scatter(comm, none, none, 0);
      tutti::gather(comm, none, none, 0);
      tutti::reduce(comm, none, none, std::plus{}, 0);
      tutti::reduce_scatter(comm, none, std::plus{});
      tutti::allgather(comm, none);
      tutti::allreduce(comm, none, tutti::average{});
      tutti::alltoall(comm, none);
      auto pending = tutti::iallreduce(comm, none, std::plus{});
      pending.wait();
      tutti::barrier(comm);
    });
  }
}

TEST_CASE("A11 what a rank sent before it left still arrives") {
  const deadline limit(60s);
  // The last to be waited for leaves at the very moment at which it is waited for.
  for (int repetition = 0; repetition < (sanitized ? 300 : 3000); ++repetition) {
    const int ranks = 3 + repetition % 3;
    const auto ended = outcomes_of_run(ranks, [&](communicator& comm) {
      std::vector<int> all(static_cast<std::size_t>(ranks));
      all[static_cast<std::size_t>(comm.rank())] = comm.rank() + 1;
      tutti::gather(comm, all, 0);
      if (comm.rank() == 0)
        for (int rank = 0; rank < ranks; ++rank)
          if (all[static_cast<std::size_t>(rank)] != rank + 1) throw std::logic_error("wrong");
    });
    REQUIRE(ended.run == outcome{});
  }
}

TEST_CASE("a failure is heard of soon") {
  const deadline limit(120s);
  for (const int ranks : {2, 4, 8}) {
    for (const bool asleep : {false, true}) {
      std::vector<double> microseconds;
      const int repetitions = sanitized ? 20 : asleep ? 40 : 200;
      for (int repetition = 0; repetition < repetitions; ++repetition) {
        std::atomic<clock::time_point> thrown{};
        std::vector<clock::time_point> heard(static_cast<std::size_t>(ranks));
        cups_of_run(ranks, [&](communicator& comm) {
          tutti::barrier(comm);
          if (comm.rank() == 0) {
            if (asleep) std::this_thread::sleep_for(10ms);
            thrown = clock::now();
            throw out_of_coffee{1};
          }
          outcome_of([&] { tutti::barrier(comm); });
          heard[static_cast<std::size_t>(comm.rank())] = clock::now();
        });
        for (int rank = 1; rank < ranks; ++rank)
          microseconds.push_back(
              std::chrono::duration<double, std::micro>(heard[static_cast<std::size_t>(rank)] - thrown.load()).count());
      }
      std::sort(microseconds.begin(), microseconds.end());
      const auto quantile = [&](double q) {
        return microseconds[static_cast<std::size_t>(q * static_cast<double>(microseconds.size() - 1))];
      };
      MESSAGE(ranks << " ranks, waiting " << std::string(asleep ? "asleep" : "awake")
                    << ": microseconds from throw to peer_failed: "
                    << "median " << quantile(0.5) << ", 99 % " << quantile(0.99) << ", longest " << quantile(1.0));
      CHECK(quantile(1.0) < 1e6);
    }
  }
}
