// SPDX-License-Identifier: BSL-1.0
#pragma once

// A run of processes of which each rank tells the test how it ended, in memory that they share.

#include <tutti/run_processes.hpp>

#include "child_process.hpp"
#include "communicator/outcome.hpp"
#include "transport/rank_report.hpp"

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace test {

using process_communicator = tutti::communicator<tutti::processes>;

/// `work(comm, report)` on each rank; `report.steps` may be counted.
template <class F>
process_outcomes outcomes_of_processes(int ranks, F&& work) {
  const shared_with_children<rank_report> reports(ranks);
  const outcome result = outcome_of([&] {
    tutti::run_processes(ranks, [&](process_communicator& comm) {
      rank_report& mine = reports[comm.rank()];
      std::exception_ptr thrown;
      const outcome o = outcome_of([&] {
        try {
          work(comm, mine);
        } catch (...) {
          mine.when = monotonic_now();
          thrown = std::current_exception();
          throw;
        }
      });
      mine.write(o);
      if (thrown) std::rethrow_exception(thrown);
    });
  });
  process_outcomes ranks_only = collected(reports, ranks);
  ranks_only.run = result;
  return ranks_only;
}

/// The ranks of a job that something else has started: what `work(comm, report)` comes to on each. `run` is not used.
/// Without `run_processes` above them, they have to notice everything themselves. `started(pids)` is told of them.
template <class F, class Started>
process_outcomes outcomes_of_launched(int ranks, const std::string& job, std::chrono::nanoseconds limit, F&& work,
                                      Started&& started) {
  const shared_with_children<rank_report> reports(ranks);
  tutti::detail::rendezvous_options options;
  options.limit = limit;
  std::vector<std::unique_ptr<child_process>> processes;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(std::make_unique<child_process>([&] {
      rank_report& mine = reports[rank];
      const auto on_rank = [&](process_communicator& comm) { work(comm, mine); };
      const outcome o = outcome_of([&] {
        try {
          tutti::detail::run_launched({rank, ranks, -1, -1, job, "a test"}, options, on_rank);
        } catch (...) {
          mine.when = monotonic_now();
          throw;
        }
      });
      mine.write(o);
      return 0;
    }));
    pids.push_back(processes.back()->pid());
  }
  started(pids);
  for (auto& process : processes) process->end();
  return collected(reports, ranks);
}
template <class F>
process_outcomes outcomes_of_launched(int ranks, const std::string& job, std::chrono::nanoseconds limit, F&& work) {
  return outcomes_of_launched(ranks, job, limit, work, [](const std::vector<pid_t>&) {});
}

}  // namespace test
