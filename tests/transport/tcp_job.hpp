// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks over TCP, as threads or as processes of a test, and how each of them ended.

#include <tutti/run_tcp.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "communicator/outcome.hpp"
#include "transport/rank_report.hpp"

namespace test {

using tcp_communicator = tutti::communicator<tutti::tcp>;

/// What a test may set for all ranks.
struct tcp_job {
  std::chrono::milliseconds heartbeat{5'000};
  std::chrono::milliseconds start_timeout{30'000};

  tutti::tcp_options of(tutti::detail::tcp_loopback& all, int rank) const {
    tutti::tcp_options o = all.options(rank);
    o.heartbeat = heartbeat;
    o.start_timeout = start_timeout;
    return o;
  }
};

/// `work(comm)` on each rank, a thread of its own: what that came to, which is also what `run_tcp` came to, unless the
/// ranks find out in the end that something was wrong.
template <class F>
std::vector<outcome> outcomes_on_threads(int ranks, const tcp_job& job, F&& work) {
  tutti::detail::tcp_loopback all(ranks);
  std::vector<tutti::tcp_options> options;
  for (int rank = 0; rank < ranks; ++rank) options.push_back(job.of(all, rank));
  std::vector<outcome> result(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < result.size(); ++rank)
    threads.emplace_back([&, rank] {
      result[rank] = outcome_of([&] { tutti::run_tcp(options[rank], [&](tcp_communicator& comm) { work(comm); }); });
    });
  for (std::thread& t : threads) t.join();
  return result;
}
template <class F>
std::vector<outcome> outcomes_on_threads(int ranks, F&& work) {
  return outcomes_on_threads(ranks, {}, work);
}

/// `work(comm, report)` on each rank, a process of its own, which has nobody but the others to tell it how they are.
/// `started(pids)` is told of them. `run` is not used.
template <class F, class Started>
process_outcomes outcomes_on_processes(int ranks, const tcp_job& job, F&& work, Started&& started) {
  const shared_with_children<rank_report> reports(ranks);
  std::vector<std::unique_ptr<child_process>> processes;
  std::vector<pid_t> pids;
  {
    tutti::detail::tcp_loopback all(ranks);
    std::vector<tutti::tcp_options> options;
    for (int rank = 0; rank < ranks; ++rank) options.push_back(job.of(all, rank));
    const tutti::detail::descriptor_owner listener(options[0].listener);
    for (int rank = 0; rank < ranks; ++rank) {
      processes.push_back(std::make_unique<child_process>([&] {
        if (rank != 0 && listener) close(listener.get());
        rank_report& mine = reports[rank];
        mine.write(outcome_of([&] {
          try {
            tutti::run_tcp(options[static_cast<std::size_t>(rank)], [&](tcp_communicator& comm) {
              try {
                work(comm, mine);
              } catch (...) {
                mine.when = monotonic_now();
                throw;
              }
            });
          } catch (...) {
            if (mine.when == 0) mine.when = monotonic_now();
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
template <class F>
process_outcomes outcomes_on_processes(int ranks, const tcp_job& job, F&& work) {
  return outcomes_on_processes(ranks, job, work, [](const std::vector<pid_t>&) {});
}

}  // namespace test
