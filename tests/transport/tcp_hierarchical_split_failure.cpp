// SPDX-License-Identifier: BSL-1.0

// Ranks of several hosts that fail while communicators are made: those who wait for them within their host are told.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/run_hierarchical.hpp>
#include <tutti/tutti.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <stdexcept>
#include <thread>
#include <vector>

#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"
#include "deadline.hpp"
#include "transport/hierarchical_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using inner = interrupted<tutti::processes>;
using comm_type = tutti::communicator<tutti::hierarchical<inner, tutti::tcp>>;
static_assert(tutti::splitting_transport<tutti::hierarchical<inner, tutti::tcp>>);

int sum(comm_type& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

void wait_for(const std::atomic<int>& counter, int count) {
  while (counter.load() < count) std::this_thread::yield();
}

/// `work(comm)` on each rank.
void on_hosts(const std::vector<int>& where, const std::function<void(comm_type&)>& work) {
  tutti::detail::tcp_loopback all(static_cast<int>(where.size()));
  const auto options = options_on_hosts(all, where, 10'000ms);
  std::vector<outcome> of(where.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < of.size(); ++rank)
    threads.emplace_back([&, rank] {
      of[rank] = outcome_of([&] { tutti::detail::run_hierarchical_rank<inner, tutti::tcp>(options[rank], work); });
    });
  for (std::thread& each : threads) each.join();
  for (const outcome& each : of) CHECK(each == outcome{});
}

}  // namespace

TEST_CASE(
    "a rank that fails at the end of a division is missed on its host, also if only another host knows the number") {
  const deadline limit{60s};
  for (const bool other_host_has_more : {false, true}) {
    CAPTURE(other_host_has_more);
    std::vector<outcome> ends(2);
    std::atomic<int> divided{0};
    std::atomic<int> told{0};
    std::chrono::steady_clock::duration waited{};
    on_hosts({0, 0, 1}, [&](comm_type& comm) {
      const int me = comm.rank();
      auto alone = comm.split(me);
      auto parent = comm.dup();
      auto all = parent.split(0);  // there are connections now
      std::list<comm_type> more;
      const int itself[]{0};
      while (me == 2 && other_host_has_more && more.size() < 3)
        more.emplace_back(alone.transport().subgroup(alone.transport().next_group(), itself));
      if (me == 1) {
        last_round = 1;
        before_the_end = [&] {
          wait_for(divided, 2);
          throw std::runtime_error("no shoes");
        };
        ends[1] = outcome_of([&] { const auto part = parent.split(0); });
        wait_for(told, 1);
      } else {
        auto part = parent.split(me == 0 ? 0 : 1);
        ++divided;
        const auto begin = std::chrono::steady_clock::now();
        if (me == 0) {
          ends[0] = outcome_of([&] { tutti::barrier(part); });
          waited = std::chrono::steady_clock::now() - begin;
          ++told;
        }
      }
      CHECK(sum(comm, 1) == 3);
      auto again = comm.dup();
      CHECK(sum(again, 1) == 3);
    });
    CHECK(ends[1] == outcome{"other", "no shoes", -1});
    CAPTURE(ends[0].text);
    CHECK(ends[0].kind == "peer_failed");
    CHECK(ends[0].peer == 1);
    CHECK(contains(ends[0].text, "rank 1 left while rank 0 "));
    CHECK(contains(ends[0].text, " of barrier by "));
    CHECK(waited < 4s);
  }
}
