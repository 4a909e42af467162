// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks of several hosts on one machine: those that are told the same name of a host share memory, all others talk over
// loopback. As threads or as processes of a test, and how each of them ended.

#include <tutti/run_hierarchical.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "communicator/outcome.hpp"
#include "transport/rank_report.hpp"

namespace test {

using hierarchical_comm = tutti::communicator<tutti::hierarchical<tutti::processes, tutti::tcp>>;
using hierarchical_work = std::function<void(hierarchical_comm&)>;

/// The host of each rank where the first `sizes[0]` ranks are on host 0, and so on.
inline std::vector<int> in_order(const std::vector<int>& sizes) {
  std::vector<int> where;
  for (std::size_t host = 0; host < sizes.size(); ++host)
    where.insert(where.end(), static_cast<std::size_t>(sizes[host]), static_cast<int>(host));
  return where;
}

/// `work(comm)` as that rank. One instance of all that is below it is enough for a test.
inline outcome outcome_of_hierarchical(const tutti::tcp_options& options, const hierarchical_work& work) {
  return outcome_of([&] { tutti::run_hierarchical(options, work); });
}

inline std::vector<tutti::tcp_options> options_on_hosts(tutti::detail::tcp_loopback& all, const std::vector<int>& where,
                                                        std::chrono::milliseconds heartbeat) {
  std::vector<tutti::tcp_options> options;
  for (std::size_t rank = 0; rank < where.size(); ++rank) {
    options.push_back(all.options(static_cast<int>(rank)));
    options.back().host = "host " + std::to_string(where[rank]);
    options.back().heartbeat = heartbeat;
  }
  return options;
}

/// `work(comm)` as each rank, a thread of its own, rank r on host `where[r]`.
inline std::vector<outcome> outcomes_on_hosts(const std::vector<int>& where, const hierarchical_work& work) {
  tutti::detail::tcp_loopback all(static_cast<int>(where.size()));
  const auto options = options_on_hosts(all, where, std::chrono::milliseconds(10'000));
  std::vector<outcome> result(where.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < result.size(); ++rank)
    threads.emplace_back([&, rank] { result[rank] = outcome_of_hierarchical(options[rank], work); });
  for (std::thread& each : threads) each.join();
  return result;
}

/// `work(comm, report)` as each rank, a process of its own. `started(pids)` is told of them.
template <class F, class Started>
process_outcomes outcomes_of_hosts_processes(const std::vector<int>& where, F&& work, Started&& started) {
  const auto ranks = static_cast<int>(where.size());
  const shared_with_children<rank_report> reports(ranks);
  std::vector<std::unique_ptr<child_process>> processes;
  std::vector<pid_t> pids;
  {
    tutti::detail::tcp_loopback all(ranks);
    const auto options = options_on_hosts(all, where, std::chrono::milliseconds(10'000));
    const tutti::detail::descriptor_owner listener(options[0].listener);
    for (int rank = 0; rank < ranks; ++rank) {
      processes.push_back(std::make_unique<child_process>([&] {
        if (rank != 0 && listener) close(listener.get());
        rank_report& mine = reports[rank];
        mine.write(outcome_of_hierarchical(options[static_cast<std::size_t>(rank)], [&](hierarchical_comm& comm) {
          try {
            work(comm, mine);
          } catch (...) {
            mine.when = monotonic_now();
            throw;
          }
        }));
        return 0;
      }));
      pids.push_back(processes.back()->pid());
    }
  }
  started(pids);
  for (auto& process : processes) process->end();
  return collected(reports, ranks);
}

}  // namespace test
