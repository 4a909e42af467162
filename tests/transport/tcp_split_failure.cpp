// SPDX-License-Identifier: BSL-1.0

// Ranks over TCP that fail while communicators are made: the others are told, and only those who wait for them fail.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "transport/tcp_ranks.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using interrupted_tcp = interrupted<tutti::tcp>;
using comm_type = tutti::communicator<interrupted_tcp>;
static_assert(tutti::splitting_transport<interrupted_tcp>);

int sum(comm_type& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

/// What happens on one rank, and others wait for.
class event {
 public:
  void set() { ++count_; }
  void wait() const {
    while (count_.load() == 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> count_{0};
};

void check_missed(const outcome& end, int peer) {
  CHECK(end.kind == "peer_failed");
  CHECK(end.peer == peer);
  CHECK_MESSAGE(contains(end.text, "rank " + std::to_string(peer) + " left while rank "), end.text);
  CHECK_MESSAGE(contains(end.text, " of barrier by "), end.text);
}

/// `work(comm)` on each of three ranks.
void on_ranks(const std::function<void(comm_type&)>& work) {
  const listening_job job(3);
  std::vector<outcome> of(3);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      of[rank] = outcome_of(
          [&] { tutti::detail::run_tcp_rank<interrupted_tcp>(job.options[rank], work, [](const auto&) {}); });
    });
  for (std::thread& each : threads) each.join();
  for (const outcome& each : of) CHECK(each == outcome{});
}

}  // namespace

TEST_CASE("a rank that fails at the end of a division is missed by those who have ended it, and by nobody else") {
  const deadline limit{60s};
  for (const int bad : {1, 0}) {
    for (const bool goes_on : {false, true}) {
      CAPTURE(bad);
      CAPTURE(goes_on);
      const int good = 1 - bad;
      outcome failed, missed;
      event divided, entered, told;
      std::chrono::steady_clock::duration waited{};
      on_ranks([&](comm_type& comm) {
        const int me = comm.rank();
        auto pair = comm.split(me / 2);
        auto others = comm.split(me == good ? 0 : 1);
        if (me == good) {
          auto part = pair.dup();
          divided.set();
          if (goes_on) entered.wait();
          const auto begin = std::chrono::steady_clock::now();
          missed = outcome_of([&] { tutti::barrier(part); });
          waited = std::chrono::steady_clock::now() - begin;
          told.set();
        } else if (me == bad) {
          before_the_end = [&] {
            divided.wait();
            throw std::runtime_error("no shoes");
          };
          failed = outcome_of([&] { const auto part = pair.dup(); });
          if (!goes_on) told.wait();
        }
        // Of those it may have the number that the bad one has missed.
        auto next = others.dup();
        CHECK(sum(next, 1) == others.size());
        if (me == bad) entered.set();
        told.wait();
        CHECK(sum(next, 1) == others.size());
        CHECK(sum(comm, 1) == 3);
        auto again = comm.dup();
        CHECK(sum(again, 1) == 3);
      });
      CHECK(failed == outcome{"other", "no shoes", -1});
      check_missed(missed, bad);
      CHECK(waited < 4s);  // nobody waited for a heartbeat, which is longer
    }
  }
}

TEST_CASE("a rank that finds the communicator failed of which all have agreed to make another is missed in that") {
  const deadline limit{60s};
  for (const bool tries : {true, false}) {
    CAPTURE(tries);
    outcome missed, refused;
    event made, told;
    on_ranks([&](comm_type& comm) {
      auto pair = comm.split(comm.rank() / 2);
      const int both[]{0, 1};
      const int number = pair.transport().next_group();
      if (comm.rank() == 0) {
        comm_type part(pair.transport().subgroup(number, both));
        made.set();
        missed = outcome_of([&] { tutti::barrier(part); });
        told.set();
      } else if (comm.rank() == 1) {
        made.wait();
        pair.abort("enough");
        while (outcome_of([&] { pair.transport().check(); }) == outcome{}) std::this_thread::yield();
        if (tries) refused = outcome_of([&] { pair.transport().subgroup(number, both); });
        told.wait();
      }
      CHECK(sum(comm, 1) == 3);
      auto again = comm.dup();
      CHECK(sum(again, 1) == 3);
    });
    check_missed(missed, 1);
    if (tries) CHECK(contains(refused.text, "rank 1 aborted: enough"));
  }
}
