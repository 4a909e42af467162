// SPDX-License-Identifier: BSL-1.0
#pragma once

// What ranks do while one of them meets a fault, and at which points it may.

#define TUTTI_FAULT_POINTS
#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <tutti/core/fault_point.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace test {

using namespace tutti;
using fault::action;

inline constexpr int steps = sanitized ? 4 : 8;

inline void expect(bool right) {
  if (!right) throw std::logic_error("wrong result");
}

/// A mixture of calls: what is in one line, in a slot, copied, read where it is, and pending.
inline void step(process_communicator& comm, shared_buffer<int>& shared) {
  const int ranks = comm.size();
  const int sum = ranks * (ranks - 1) / 2;
  std::vector<int> one(1, comm.rank());
  allreduce(comm, one, std::plus{});
  expect(one[0] == sum);
  std::vector<int> large(25'000, comm.rank());
  std::vector<int> more(100, comm.rank());
  auto pending = iallreduce<ring>(comm, more, std::plus{});
  allreduce<ring>(comm, large, std::plus{});
  expect(large.front() == sum && large.back() == sum);
  pending.wait();
  expect(more.back() == sum);
  std::fill(shared.begin(), shared.end(), comm.rank());
  allreduce(comm, shared, std::plus{});
  expect(shared[0] == sum && shared[24'999] == sum);
  std::vector<int> from_each(static_cast<std::size_t>(ranks) * 1000, comm.rank());
  alltoall<flat>(comm, from_each);
  expect(from_each.front() == 0 && from_each.back() == ranks - 1);
  std::vector<int> told(25'000, comm.rank());
  broadcast<binomial>(comm, told, ranks - 1);
  expect(told.back() == ranks - 1);
  barrier(comm);
}

inline void work(process_communicator& comm, rank_report& mine) {
  auto shared = comm.allocate<int>(25'000);
  for (int i = 0; i < steps; ++i) {
    step(comm, shared);
    mine.steps.store(i + 1);
  }
}

/// How often each point is hit by the ranks when nothing goes wrong.
inline std::map<std::string, std::uint64_t> hits_of(int ranks) {
  fault::disarm();
  fault::share_with_children();
  const auto ended = outcomes_of_processes(ranks, work);
  REQUIRE(ended.run == outcome{});
  std::map<std::string, std::uint64_t> hits;
  fault::for_each_name([&](std::string_view name, std::uint64_t n) { hits[std::string(name)] = n; });
  return hits;
}

/// What is armed happens in a run of its own.
inline process_outcomes run_with(const fault::plan& plan, int ranks) {
  fault::arm(plan);
  fault::share_with_children();
  return outcomes_of_processes(ranks, work);
}

struct sweep_result {
  int fired = 0;
  int strict = 0;                    // all others had to throw
  std::vector<double> milliseconds;  // from a death to the last that heard of it

  double quantile(double q) const {
    return milliseconds[static_cast<std::size_t>(q * static_cast<double>(milliseconds.size() - 1))];
  }
  void tell(const std::string& what) {
    std::sort(milliseconds.begin(), milliseconds.end());
    MESSAGE(what << ": " << fired << " faults, " << strict
                 << " of them while all worked: milliseconds until the last has heard: median " << quantile(0.5)
                 << ", 90 % " << quantile(0.9) << ", 99 % " << quantile(0.99) << ", longest " << quantile(1.0));
    // Half a second is what is promised; ten times that where the machine is busy with other things.
    CHECK(quantile(1.0) < 5000);
  }
};

/// All others name the victim, in the same words; those that had ended their work may not have needed it any more.
inline void check_survivors(const process_outcomes& ended, int ranks, int victim, sweep_result& result) {
  const bool strict = ended.steps_of(victim) < steps - 1;
  result.strict += strict ? 1 : 0;
  std::set<std::string> texts;
  std::int64_t last = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    CAPTURE(rank);
    const outcome& o = ended.on(rank);
    if (!strict && o == outcome{}) continue;
    CAPTURE(o.text);
    CHECK(o.kind == "peer_failed");
    CHECK(o.peer == victim);
    texts.insert(o.text);
    last = std::max(last, ended.when[static_cast<std::size_t>(rank)]);
  }
  if (ended.steps_of(victim) > 0) CHECK(texts.size() <= 1);
  if (last != 0) result.milliseconds.push_back(static_cast<double>(last - fault::fired_at()) / 1e6);
}

inline std::string text_of(const fault::plan& p, int ranks) {
  return std::string(p.name) + ":" + std::to_string(p.nth) + "@" + std::to_string(p.rank) + " of " +
         std::to_string(ranks);
}

/// Whether to take all faults and not a part of them, in ten times the time: TUTTI_SWEEP=all.
inline bool sweep_all() {
  const char* const text = std::getenv("TUTTI_SWEEP");
  return text != nullptr && std::string_view(text) == "all";
}

/// Plans that strike at each point which ranks come to, at its first hit and in the middle; or at every fourth or
/// eighth, at one of the two, which are others for another number of ranks. `hits` keeps the names.
inline std::vector<fault::plan> plans_for(int ranks, action what, const std::map<std::string, std::uint64_t>& hits) {
  constexpr int every = sanitized ? 8 : 4;
  std::vector<fault::plan> plans;
  int number = ranks;
  for (const auto& [name, count] : hits) {
    ++number;
    const std::uint64_t middle = count / static_cast<std::uint64_t>(2 * ranks) + 1;
    if (!sweep_all() && number % every != 0) continue;
    std::set<std::uint64_t> hit{number / every % 2 == 0 ? 1 : middle};
    if (sweep_all()) hit = {1, middle};
    for (const std::uint64_t nth : hit)
      plans.push_back({.name = name, .nth = nth, .what = what, .rank = number % ranks});
  }
  return plans;
}

/// Points in what may not throw, or where the rank cannot say what it was.
inline bool may_not_throw(std::string_view name) {
  return name.starts_with("failure.") || name.ends_with(".abandon") || name == "launch.child" || name == "group.wake" ||
         name == "group.leave" || name == "group.left";
}

inline constexpr std::chrono::seconds patience(20);

inline std::string new_job() {
  static int number = 0;
  return "deaths " + std::to_string(getpid()) + " " + std::to_string(++number);
}

}  // namespace test
