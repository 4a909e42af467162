// SPDX-License-Identifier: BSL-1.0

// A1, A2, A4, A5, A6: a rank dies at any point of its way, in whatever manner. All others hear of it soon and name it,
// the run says what happened, and nothing is left.

#include "transport/processes_sweep.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;

TEST_CASE("A1 A2 a rank that is killed at any point is named by all others and by the run") {
  const alarm_limit limit(sanitized ? 300 : 120);
  const int before = open_descriptors();
  sweep_result all;
  for (const int ranks : {2, 3, 5, 8}) {
    sweep_result result;
    const auto hits = hits_of(ranks);
    CHECK(hits.size() >= 45);
    for (const fault::plan& plan : plans_for(ranks, action::kill, hits)) {
      const std::string text = text_of(plan, ranks);
      CAPTURE(text);
      const auto ended = run_with(plan, ranks);
      CHECK_FALSE(has_children());
      if (!fault::fired()) {  // it had to wait less often than before
        CHECK(ended.run == outcome{});
        continue;
      }
      ++result.fired;
      CAPTURE(ended.run.text);
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == plan.rank);
      CHECK(contains(ended.run.text, "rank " + std::to_string(plan.rank) + " was killed by signal 9 (Killed)"));
      check_survivors(ended, ranks, plan.rank, result);
    }
    CHECK(result.strict >= (sweep_all() ? 25 : 2));
    result.tell(std::to_string(ranks) + " ranks");
  }
  fault::share_no_more();
  fault::disarm();
  CHECK(open_descriptors() == before);
}

TEST_CASE("A5 a rank that throws at any point is named by all others and by the run, and nothing blocks") {
  const alarm_limit limit(sanitized ? 300 : 120);
  for (const int ranks : {2, 3, 5}) {
    sweep_result result;
    const auto hits = hits_of(ranks);
    for (const fault::plan& plan : plans_for(ranks, action::raise, hits)) {
      if (may_not_throw(plan.name)) continue;
      const std::string text = text_of(plan, ranks);
      CAPTURE(text);
      const auto ended = run_with(plan, ranks);
      CHECK_FALSE(has_children());
      if (!fault::fired()) continue;
      ++result.fired;
      CAPTURE(ended.run.text);
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == plan.rank);
      CHECK(contains(ended.run.text, "fault point " + std::string(plan.name) + ", hit " + std::to_string(plan.nth)));
      check_survivors(ended, ranks, plan.rank, result);
    }
    result.tell(std::to_string(ranks) + " ranks, one throws");
  }
  fault::share_no_more();
  fault::disarm();
}

TEST_CASE("A4 A6 however a rank ends in its function, all others name it and the run says how") {
  const alarm_limit limit(sanitized ? 200 : 60);
  struct way {
    void (*end)();
    std::vector<std::string> texts;  // one of them is in what the run throws
  };
  const std::vector<way> ways{
      {[] { throw std::runtime_error("no shoes"); }, {"failed: no shoes"}},
      {[] { throw 42; }, {"failed: an exception that is no std::exception"}},
      {[] { _exit(0); }, {"ended before its function returned", "exited with code 0"}},
      {[] { _exit(3); }, {"exited with code 3"}},
      {[] { std::exit(0); }, {"ended before its function returned", "exited with code 0"}},
      {[] { std::exit(3); }, {"exited with code 3"}},
      {[] { std::abort(); }, {"was killed by signal 6 (Aborted)"}},
      {[] { raise(SIGKILL); }, {"was killed by signal 9 (Killed)"}},
      {[] { raise(SIGTERM); }, {"was killed by signal 15 (Terminated)"}},
      {[] { raise(SIGINT); }, {"was killed by signal 2 (Interrupt)"}},
  };
  for (const int ranks : {2, 3, 5, 8}) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      if (sanitized && w % 4 != static_cast<std::size_t>(ranks) % 4) continue;
      const int victim = static_cast<int>(w) % ranks;
      CAPTURE(ranks);
      CAPTURE(w);
      const auto ended = outcomes_of_processes(ranks, [&](process_communicator& comm, rank_report& mine) {
        take_signals_by_default();
        auto shared = comm.allocate<int>(25'000);
        for (int i = 0; i < 2; ++i) {
          step(comm, shared);
          if (comm.rank() == victim && i == 0) ways[w].end();
          mine.steps.store(i + 1);
        }
      });
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == victim);
      CAPTURE(ended.run.text);
      CHECK(std::any_of(ways[w].texts.begin(), ways[w].texts.end(), [&](const std::string& text) {
        return contains(ended.run.text, "rank " + std::to_string(victim) + " " + text);
      }));
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == victim) continue;
        CHECK(ended.on(rank).kind == "peer_failed");
        CHECK(ended.on(rank).peer == victim);
      }
      CHECK_FALSE(has_children());
    }
  }
}

TEST_CASE("A2 where several die at once, all that are left name the same one of them") {
  const alarm_limit limit(sanitized ? 120 : 60);
  for (const int ranks : {3, 5, 8}) {
    for (int repetition = 0; repetition < (sanitized ? 2 : 10); ++repetition) {
      for (const bool launched : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(launched);
        // All but rank 0 and the last, or all but the last.
        const int first = repetition % 2;
        const auto kill_many = [&](process_communicator& comm, rank_report&) {
          auto shared = comm.allocate<int>(25'000);
          step(comm, shared);
          if (comm.rank() >= first && comm.rank() < ranks - 1) raise(SIGKILL);
          for (;;) step(comm, shared);
        };
        const auto ended = launched ? outcomes_of_launched(ranks, new_job(), patience, kill_many)
                                    : outcomes_of_processes(ranks, kill_many);
        const outcome& last = ended.on(ranks - 1);
        CHECK(last.kind == "peer_failed");
        CHECK((last.peer >= first && last.peer < ranks - 1));
        if (first == 1) CHECK(ended.on(0) == last);
        if (launched) continue;
        CHECK(ended.run.kind == "peer_failed");
        CHECK(ended.run.peer == last.peer);
        CHECK(contains(ended.run.text, "rank " + std::to_string(last.peer) + " was killed by signal 9 (Killed)"));
      }
    }
  }
}
