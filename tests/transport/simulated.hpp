// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/run_simulated.hpp>
#include <tutti/tutti.hpp>

#include <cstddef>
#include <exception>
#include <vector>

#include "communicator/outcome.hpp"

namespace test {

using simulated_communicator = tutti::communicator<tutti::simulated>;

/// How `tutti::run_simulated(ranks, options, work)` ended, on each rank and as a whole. A rank that deals with its
/// exception leaves the run its report; else the report is empty.
struct simulated_outcomes {
  std::vector<outcome> of;
  outcome run;
  tutti::simulated_report report;
};

/// `rethrow`: what `work` throws ends the rank. What is no exception of the library's or the standard's always does.
template <class F>
simulated_outcomes outcomes_of_simulated(int ranks, const tutti::simulated_options& options, F&& work,
                                         bool rethrow = false) {
  simulated_outcomes result{std::vector<outcome>(static_cast<std::size_t>(ranks)), {}, {}};
  result.run = outcome_of([&] {
    result.report = tutti::run_simulated(ranks, options, [&](simulated_communicator& comm) {
      outcome& mine = result.of[static_cast<std::size_t>(comm.rank())];
      mine.kind = "killed";
      std::exception_ptr thrown;
      try {
        work(comm);
        mine.kind = "none";
      } catch (const std::exception& e) {
        thrown = std::current_exception();
        mine = outcome_of([&] { std::rethrow_exception(thrown); });
        if (rethrow) throw;
      }
    });
  });
  return result;
}

}  // namespace test
