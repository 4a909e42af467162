// SPDX-License-Identifier: BSL-1.0

// Many messages, many lanes, many ranks, and much time: what is bounded stays so, and nothing is lost or mixed up.

#include "communicator/outcome.hpp"
#include "deadline.hpp"

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using communicator = tutti::communicator<tutti::threads>;
using clock = std::chrono::steady_clock;
using ints = std::vector<int>;

void expect(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("wrong: ") + what);
}

ints filled(std::size_t n, int value) { return ints(n, value); }

}  // namespace

TEST_CASE("more messages in a round than a channel holds: strided blocks among 32 ranks") {
  const deadline limit(120s);
  const int ranks = sanitized ? 20 : 32;
  const auto end = outcome_of([&] {
    tutti::run(ranks, [&](communicator& comm) {
      const auto p = static_cast<std::size_t>(ranks);
      for (const std::size_t each : {1U, 300U, 1500U}) {
        ints data(each * p);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = comm.rank() + static_cast<int>(i / each);
        const auto own = tutti::reduce_scatter<tutti::pat>(comm, data, std::plus{});
        expect(ints(own.begin(), own.end()) == filled(each, ranks * (ranks - 1) / 2 + ranks * comm.rank()),
               "reduce_scatter");
        ints all(each * p);
        tutti::allgather<tutti::pat>(comm, filled(each, comm.rank()), all);
        for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == static_cast<int>(i / each), "allgather");
        tutti::allreduce<tutti::pat>(comm, all, tutti::maximum{});
        for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == static_cast<int>(i / each), "allreduce");
        ints exchanged(each * p);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = comm.rank() * 1000 + static_cast<int>(i / each);
        tutti::alltoall<tutti::pat>(comm, data, exchanged);
        for (std::size_t i = 0; i < data.size(); ++i)
          expect(exchanged[i] == static_cast<int>(i / each) * 1000 + comm.rank(), "alltoall");
      }
    });
  });
  CHECK(end == outcome{});
}

TEST_CASE("a root runs ahead of those who are late, not without bound, and its buffer is its own when it returns") {
  const deadline limit(120s);
  const auto check = []<class A>() {
    for (const int ranks : {2, 5}) {
      for (const std::size_t n : {1U, 30U, 800U, 30000U}) {
        CAPTURE(tutti::name_of<A>());
        CAPTURE(ranks);
        CAPTURE(n);
        std::atomic<int> done = 0;
        std::atomic<bool> go = false;
        int ahead = 0;
        const auto end = outcome_of([&] {
          tutti::run(ranks, [&](communicator& comm) {
            ints data(n);
            if (comm.rank() != 0)
              while (!go) std::this_thread::sleep_for(1ms);
            std::thread watch;
            if (comm.rank() == 0)
              watch = std::thread([&] {
                // Until the root is stuck.
                for (int last = -1; last != done || last == 0; std::this_thread::sleep_for(20ms)) {
                  last = done;
                  if (last == 0 && n > 1024) break;  // it cannot finish even the first
                }
                ahead = done;
                go = true;
              });
            for (int call = 0; call < 100; ++call) {
              if (comm.rank() == 0) data.assign(n, call);
              tutti::broadcast<A>(comm, data, 0);
              expect(data == filled(n, call), "broadcast");
              if (comm.rank() == 0) {
                data.assign(n, -1);
                ++done;
              }
            }
            if (watch.joinable()) watch.join();
          });
        });
        CHECK(end == outcome{});
        if (n <= 1024) CHECK(ahead >= 4);
        CHECK(ahead <= 64);
      }
    }
  };
  check.operator()<tutti::flat>();
  check.operator()<tutti::binomial>();
  check.operator()<tutti::pat>();
}

TEST_CASE("the ranks that only give run ahead of the root, not without bound") {
  const deadline limit(120s);
  for (const int ranks : {2, 5}) {
    for (const std::size_t n : {1U, 200U, 30000U}) {
      CAPTURE(ranks);
      CAPTURE(n);
      std::atomic<int> most = 0;
      std::atomic<bool> go = false;
      const auto end = outcome_of([&] {
        tutti::run(ranks, [&](communicator& comm) {
          if (comm.rank() == 0) {
            std::this_thread::sleep_for(50ms);
            go = true;
          }
          for (int call = 0; call < 200; ++call) {
            ints data(n, comm.rank() + call);
            ints sum(comm.rank() == 0 ? n : 0);
            tutti::reduce<tutti::binomial>(comm, data, sum, std::plus{}, 0);
            data.assign(n, -1);
            if (comm.rank() == 0) expect(sum == filled(n, ranks * (ranks - 1) / 2 + ranks * call), "reduce");
            if (!go) most = std::max(most.load(), call + 1);
          }
        });
      });
      CHECK(end == outcome{});
      CHECK(most <= 64);
    }
  }
}

TEST_CASE("channels and boards are used again and again, in every mixture") {
  const deadline limit(120s);
  for (const int ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto end = outcome_of([&] {
      tutti::run(ranks, [&](communicator& comm) {
        std::mt19937 random(11);  // the same on every rank
        const auto until = clock::now() + 3s;
        for (int call = 0; call < 20000; ++call) {
          const auto n =
              static_cast<std::size_t>(std::vector<unsigned>{0, 1, 3, 24, 25, 200, 1024, 1025, 3000}[random() % 9]);
          const int root = static_cast<int>(random() % static_cast<unsigned>(ranks));
          ints data(n, comm.rank() == root ? call : -1);
          switch (random() % 6) {
            case 0:
              tutti::broadcast(comm, data, root);
              break;
            case 1:
              tutti::broadcast<tutti::binomial>(comm, data, root);
              break;
            case 2:
              tutti::broadcast<tutti::scatter_allgather>(comm, data, root);
              break;
            case 3:
              tutti::allreduce(comm, data, tutti::maximum{});
              break;
            case 4:
              tutti::allreduce<tutti::ring>(comm, data, tutti::maximum{});
              break;
            case 5:
              tutti::allreduce<tutti::naive>(comm, data, tutti::maximum{});
              break;
          }
          expect(data == filled(n, call), "some collective");
          if (call % 100 == 99) {
            ints stop(1, clock::now() > until ? 1 : 0);
            tutti::broadcast(comm, stop, 0);
            if (stop[0] != 0) break;
          }
        }
      });
    });
    CHECK(end == outcome{});
  }
}

TEST_CASE("a hundred pending collectives on sixty-four lanes") {
  const deadline limit(60s);
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const auto end = outcome_of([&] {
      tutti::run(ranks, [&](communicator& comm) {
        for (int repetition = 0; repetition < 5; ++repetition) {
          std::deque<ints> data;
          std::deque<tutti::pending<communicator>> pending;
          for (int i = 0; i < 100; ++i) {
            data.push_back(filled(static_cast<std::size_t>(i * i), comm.rank() + i));
            pending.push_back(tutti::iallreduce(comm, data.back(), std::plus{}));
          }
          tutti::barrier(comm);
          for (std::size_t i = 100; i-- > 0;) {
            // Each rank in an order of its own.
            const std::size_t at = comm.rank() == 0 ? i : (i * 37) % 100;
            pending[at].wait();
            const int value = ranks * (ranks - 1) / 2 + ranks * static_cast<int>(at);
            expect(data[at] == filled(at * at, value), "iallreduce");
          }
        }
      });
    });
    CHECK(end == outcome{});
  }
}

TEST_CASE("F15 memory does not grow with the number and the variety of calls") {
  const deadline limit(180s);
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    long size = 0;
    long pages = 0;
    file >> size >> pages;
    return pages * sysconf(_SC_PAGESIZE) / 1024;
  };
  for (const int ranks : {2, 4}) {
    const int most = (sanitized ? 20000 : 1000000) / (ranks == 2 ? 1 : 10);
    int calls = 0;
    long before = 0;
    long after = 0;
    tutti::run(ranks, [&](communicator& comm) {
      ints data(5000);
      std::vector<double> other(5000);
      const auto until = clock::now() + 20s;
      const auto some_calls = [&](int first, int count) {
        for (int call = first; call < first + count; ++call) {
          // Sizes, types, operations and places that come and go; large ones seldom.
          const std::size_t n = static_cast<std::size_t>(call * 7 % 97 == 0 ? call % 5000 : call % 61);
          const std::span some(data.data(), n);
          switch (call % 8) {
            case 0:
              tutti::broadcast(comm, some, call / 8 % ranks);
              break;
            case 1:
              tutti::allreduce(comm, some, tutti::minimum{});
              break;
            case 2:
              tutti::allreduce(comm, std::span(other.data(), n), std::plus{});
              break;
            case 3:
              tutti::reduce<tutti::binomial>(comm, some, tutti::maximum{}, call / 8 % ranks);
              break;
            case 4:
              tutti::barrier(comm);
              break;
            case 5:
              tutti::iallreduce(comm, some, std::bit_or{}).wait();
              break;
            case 6:
              tutti::allreduce<tutti::ring>(comm, some, std::bit_xor{});
              break;
            case 7:
              tutti::allreduce(comm, some, tutti::average{});
              break;
          }
        }
      };
      some_calls(0, 10000);
      tutti::barrier(comm);
      if (comm.rank() == 0) before = resident();
      tutti::barrier(comm);
      for (int call = 10000; call < most; call += 1000) {
        some_calls(call, 1000);
        if (comm.rank() == 0) calls = call + 1000;
        ints stop(1, clock::now() > until ? 1 : 0);
        tutti::broadcast(comm, stop, 0);
        if (stop[0] != 0) break;
      }
      tutti::barrier(comm);
      if (comm.rank() == 0) after = resident();
    });
    MESSAGE(ranks << " ranks, " << calls << " calls: " << before << " KiB before, " << after << " after");
    CHECK(after - before < (sanitized ? 20000 : 512));
  }
}

TEST_CASE("256 ranks in one process") {
  const deadline limit(120s);
  const int ranks = sanitized ? 64 : 256;
  const auto end = outcome_of([&] {
    tutti::run(ranks, [&](communicator& comm) {
      tutti::barrier(comm);
      ints data(3, comm.rank());
      tutti::allreduce(comm, data, std::plus{});
      expect(data == filled(3, ranks * (ranks - 1) / 2), "allreduce");
      std::vector<float> large(static_cast<std::size_t>(4 * ranks + 1), 1.0F);
      tutti::allreduce<tutti::circulant>(comm, large, std::plus{});
      expect(large == std::vector<float>(large.size(), static_cast<float>(ranks)), "allreduce by circulant");
      tutti::broadcast<tutti::binomial>(comm, data, ranks - 1);
      tutti::barrier(comm);
    });
  });
  CHECK(end == outcome{});
}
