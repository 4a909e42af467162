// SPDX-License-Identifier: BSL-1.0

// A rank's function throws while a collective is pending: between threads, and on the simulated network.

#include "communicator/unwinding.hpp"
#include "deadline.hpp"

#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <exception>

using namespace test;
using namespace std::chrono_literals;

namespace {

/// `work(comm, report)` on each rank that `launch(ranks, f)` runs.
template <class Launch, class F>
process_outcomes outcomes_on(int ranks, Launch&& launch, F&& work) {
  const shared_with_children<rank_report> reports(ranks);
  const outcome run = outcome_of([&] {
    launch(ranks, [&](auto& comm) {
      rank_report& mine = reports[comm.rank()];
      std::exception_ptr thrown;
      mine.write(outcome_of([&] {
        try {
          work(comm, mine);
        } catch (...) {
          mine.when = monotonic_now();
          thrown = std::current_exception();
          throw;
        }
      }));
      if (thrown) std::rethrow_exception(thrown);
    });
  });
  process_outcomes ended = collected(reports, ranks);
  ended.run = run;
  return ended;
}

constexpr auto on_threads = [](int ranks, auto&& work) {
  return outcomes_on(
      ranks, [](int size, auto&& f) { tutti::run(size, f); }, work);
};
constexpr auto simulated = [](int ranks, auto&& work) {
  return outcomes_on(
      ranks, [](int size, auto&& f) { tutti::run_simulated(size, {}, f); }, work);
};

template <class Launch>
process_outcomes outcomes_of_unwinding(Launch launch, const unwinding& u) {
  const process_outcomes ended =
      launch(u.ranks, [&u](auto& comm, rank_report& mine) { throw_past_pending(comm, mine, u); });
  CHECK(ended.run == outcome{"other", "no shoes", -1});
  return ended;
}

}  // namespace

TEST_CASE("an exception that passes a pending collective is what all hear of, and what run throws") {
  const deadline limit(120s);
  check_all_unwindings(sanitized ? 100 : 10, [](const unwinding& u) { return outcomes_of_unwinding(on_threads, u); });
}

TEST_CASE("an exception passes a pending collective at every point of its way") {
  const deadline limit(120s);
  for (const int ranks : {2, 3, 4})
    for (const bool flat : {true, false})
      for (int looks = 0; looks < 40; ++looks) {
        const unwinding u{ranks, looks % ranks, 20'000, looks % 5 == 0 ? pending_on::duplicate : pending_on::whole,
                          false, false,         looks,  flat};
        CAPTURE(u);
        const process_outcomes ended = outcomes_of_unwinding(on_threads, u);
        for (int rank = 0; rank < ranks; ++rank) check_unwinding(u, rank, ended.on(rank), ended.steps_of(rank));
      }
}

TEST_CASE("an exception that passes a pending collective of a simulated run is what all hear of") {
  const deadline limit(120s);
  check_all_unwindings(1e9, [](const unwinding& u) { return outcomes_of_unwinding(simulated, u); });
}

TEST_CASE("a rank that catches what has passed a pending collective fails its communicator when it goes on") {
  const deadline limit(60s);
  check_all_caught(on_threads);
  check_all_caught(simulated);
}
