// SPDX-License-Identifier: BSL-1.0

// A rank over TCP that gets no memory, at any moment of its start or of its collectives.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include "counted_new.hpp"
#include "deadline.hpp"
#include "transport/hierarchical_job.hpp"
#include "transport/tcp_job.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace test;

TEST_CASE("a rank that gets no memory says so, whenever that is, and leaves nothing open") {
  if (!counting) return;
  const deadline limit(std::chrono::seconds(120));
  const int before = open_descriptors();
  bool refused_once = true;
  for (std::size_t nth = 1; refused_once; ++nth) {
    CAPTURE(nth);
    tutti::detail::tcp_loopback all(2);
    std::vector<tutti::tcp_options> options{all.options(0), all.options(1)};
    options[0].start_timeout = std::chrono::milliseconds(100);  // in vain where the other does not come
    outcome other;
    std::thread first([&] {
      other = outcome_of([&] { tutti::run_tcp(options[0], [](tcp_communicator& comm) { tutti::barrier(comm); }); });
    });
    refused = nth;
    const outcome mine = outcome_of([&] {
      const std::function<void(tcp_communicator&)> work = [](tcp_communicator& comm) { tutti::barrier(comm); };
      tutti::run_tcp(options[1], work);
    });
    refused_once = refused == 0;
    refused = 0;
    first.join();
    CHECK_MESSAGE(mine.kind != "other", mine.text);
    if (refused_once) CHECK(other.kind != "usage_error");
  }
  CHECK(open_descriptors() == before);
}

namespace {

/// Two ranks, of which the service threads do not get the memory that `elsewhere` says.
std::vector<outcome> outcomes_without_memory(std::size_t first, std::size_t count) {
  elsewhere.first = first;
  elsewhere.seen = 0;
  tutti::detail::tcp_loopback all(2);
  std::vector<outcome> ended(2);
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1}) {
    tutti::tcp_options options = all.options(rank);
    options.heartbeat = std::chrono::milliseconds(60);
    ranks.emplace_back([options, rank, &ended] {
      made_by_test = true;
      ended[static_cast<std::size_t>(rank)] = outcome_of([&] {
        tutti::run_tcp(options, [](tcp_communicator& comm) {
          tutti::barrier(comm);
          std::vector<int> values(10'000, 1);
          tutti::allreduce(comm, values, std::plus{});
        });
      });
    });
  }
  elsewhere.end = first + count;
  for (std::thread& each : ranks) each.join();
  elsewhere.end = 0;
  return ended;
}

}  // namespace

TEST_CASE(
    "a service thread that gets no memory, whenever that is, fails the group, and nothing hangs or is left open") {
  if (!counting) return;
  made_by_test = true;
  const deadline limit(std::chrono::seconds(120));
  const int before = open_descriptors();
  int told = 0;
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}, std::size_t{1'000'000}}) {
    // Each of the first ones, then some, until a run does with fewer.
    for (std::size_t first = 1; first == 1 || elsewhere.seen >= first; first += first < 20 ? 1 : first / 6) {
      CAPTURE(count);
      CAPTURE(first);
      const std::vector<outcome> ended = outcomes_without_memory(first, count);
      for (const outcome& each : ended) {
        CAPTURE(each.text);
        CHECK((each.kind == "none" || each.kind == "resource_error" || each.kind == "peer_failed"));
        CHECK((each.kind == "none" || !each.text.empty()));
      }
      const bool same = ended[0] == ended[1];
      if (same && contains(ended[0].text, "gets no memory to talk to the others")) ++told;
      if (elsewhere.seen < first) CHECK((same && ended[0] == outcome{}));
    }
  }
  CHECK(told > 5);
  CHECK(open_descriptors() == before);
}

namespace {

/// `fail(comm)` on rank 1 of several, which does not get the memory for one thing in it, whichever that is: all ranks
/// fail. `run(work)` is how `work(comm)` ends on each.
template <class Comm, class Run, class Fail>
void check_that_all_fail(Run&& run, Fail&& fail) {
  std::size_t nth = 0;
  std::size_t left = 0;
  do {
    ++nth;
    CAPTURE(nth);
    const std::vector<outcome> ended = run([&](Comm& comm) {
      tutti::barrier<tutti::dissemination>(comm);
      if (comm.rank() == 1) {
        refused = nth;
        fail(comm);
        left = refused;
        refused = 0;
      }
      for (;;) tutti::barrier<tutti::dissemination>(comm);
    });
    for (const outcome& each : ended) {
      CAPTURE(each.text);
      CHECK((each.kind == "resource_error" || each.kind == "peer_failed"));
    }
  } while (left == 0);
}

}  // namespace

TEST_CASE("a rank that gets no memory to say what has failed fails all the same, and the others are told") {
  if (!counting) return;
  const deadline limit(std::chrono::seconds(60));
  const std::string reason(200, 'r');
  const auto on_two = [](const auto& work) { return outcomes_on_threads(2, work); };
  SUBCASE("a connection") {
    check_that_all_fail<tcp_communicator>(on_two,
                                          [&](tcp_communicator& comm) { comm.transport().group().lost(0, reason); });
  }
  SUBCASE("a call") {
    check_that_all_fail<tcp_communicator>(on_two,
                                          [&](tcp_communicator& comm) { comm.messages().lane.abandon(reason); });
  }
  SUBCASE("a call among ranks of two hosts") {
    check_that_all_fail<hierarchical_comm>(
        [](const auto& work) {
          return outcomes_on_hosts({0, 1, 1}, work);
        },
        [&](hierarchical_comm& comm) { comm.messages().lane.abandon(reason); });
  }
}
