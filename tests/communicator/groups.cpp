// SPDX-License-Identifier: BSL-1.0

// F14: several threads and several groups at once.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;

/// Calls that would notice if another group's data came in between.
void many_calls(communicator& comm, int mark, int calls) {
  for (int call = 0; call < calls; ++call) {
    const auto n = static_cast<std::size_t>(std::vector<int>{1, 20, 300, 5000}[static_cast<std::size_t>(call % 4)]);
    std::vector<int> sum(n, mark + comm.rank());
    auto pending = tutti::iallreduce(comm, sum, std::plus{});
    std::vector<int> data(n, comm.rank() == call % comm.size() ? mark + call : -1);
    tutti::broadcast(comm, data, call % comm.size());
    if (data != std::vector<int>(n, mark + call)) throw std::logic_error("another group's data");
    pending.wait();
    if (sum != std::vector<int>(n, mark * comm.size() + comm.size() * (comm.size() - 1) / 2))
      throw std::logic_error("another group's sum");
  }
}

}  // namespace

TEST_CASE("F14 groups in different threads know nothing of each other") {
  const deadline limit(60s);
  std::vector<outcome> ends(4);
  std::vector<std::thread> programs;
  for (std::size_t i = 0; i < ends.size(); ++i)
    programs.emplace_back([&, i] {
      ends[i] = outcome_of([&] {
        tutti::run(1 + static_cast<int>(i),
                   [&](communicator& comm) { many_calls(comm, static_cast<int>(i) * 100000, sanitized ? 50 : 200); });
      });
    });
  for (auto& program : programs) program.join();
  for (const outcome& end : ends) CHECK(end == outcome{});
}

TEST_CASE("F14 a group that fails leaves the others alone") {
  const deadline limit(60s);
  std::vector<outcome> ends(3);
  std::vector<std::thread> programs;
  for (std::size_t i = 0; i < ends.size(); ++i)
    programs.emplace_back([&, i] {
      ends[i] = outcome_of([&] {
        tutti::run(2, [&](communicator& comm) {
          many_calls(comm, static_cast<int>(i) * 100000, 20);
          if (i == 1 && comm.rank() == 0) throw std::runtime_error("no shoes");
          many_calls(comm, static_cast<int>(i) * 100000, 100);
        });
      });
    });
  for (auto& program : programs) program.join();
  CHECK(ends[0] == outcome{});
  CHECK(ends[1].text == "no shoes");
  CHECK(ends[2] == outcome{});
}

TEST_CASE("F14 a rank of one group starts another, and failures come out through both") {
  const deadline limit(60s);
  const auto right = outcome_of([] {
    tutti::run(2, [](communicator& outer) {
      many_calls(outer, 1000, 10);
      tutti::run(2, [&](communicator& inner) { many_calls(inner, 2000 + outer.rank(), 10); });
      many_calls(outer, 3000, 10);
    });
  });
  CHECK(right == outcome{});
  const auto wrong = outcome_of([] {
    tutti::run(2, [](communicator& outer) {
      if (outer.rank() == 0)
        tutti::run(2, [](communicator& inner) {
          if (inner.rank() == 1) throw std::runtime_error("no shoes");
          tutti::barrier(inner);
        });
      tutti::barrier(outer);
    });
  });
  CHECK(wrong.text == "no shoes");
}

TEST_CASE("F14 a communicator is handed from thread to thread") {
  const deadline limit(60s);
  const auto end = outcome_of([] {
    tutti::run(2, [](communicator& comm) {
      std::mutex mutex;
      int turn = 0;
      const auto helper = [&](int me) {
        for (int call = 0; call < 40;) {
          const std::lock_guard lock(mutex);
          if (turn % 2 != me) continue;
          many_calls(comm, turn, 1);
          ++turn;
          ++call;
        }
      };
      std::thread other(helper, 1);
      helper(0);
      other.join();
      tutti::barrier(comm);
    });
  });
  CHECK(end == outcome{});
}
