// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks that encrypt what they send, as threads or as processes of a test, and how each of them ended.

#include <tutti/run_tcp_tls.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "child_process.hpp"
#include "communicator/outcome.hpp"
#include "transport/rank_report.hpp"
#include "transport/tls_certificates.hpp"

namespace test {

using tls_communicator = tutti::communicator<tutti::tcp_tls>;
using tls_work = std::function<void(tls_communicator&)>;

/// One authority, and a certificate of it that all ranks have.
struct identities {
  temporary_folder folder;
  certificate_authority authority{folder, "authority"};
  identity_files files = authority.sign({});
};
inline const identities& known() {
  static const identities all;
  return all;
}

inline tutti::tcp_options with_files(tutti::tcp_options o, const identity_files& files, const std::string& authority) {
  o.certificate = files.certificate;
  o.private_key = files.private_key;
  o.authority = authority;
  return o;
}

/// Options of all ranks, whose files are those of `known()`.
inline std::vector<tutti::tcp_options> tls_job(int ranks,
                                               std::chrono::milliseconds start_timeout = std::chrono::seconds(120)) {
  tutti::detail::tcp_loopback all(ranks);
  std::vector<tutti::tcp_options> job;
  for (int rank = 0; rank < ranks; ++rank) {
    job.push_back(with_files(all.options(rank), known().files, known().authority.file));
    job.back().start_timeout = start_timeout;
    job.back().heartbeat = std::chrono::seconds(60);  // nothing here is silent, but a machine may be busy
  }
  return job;
}

/// One instance of all that is below it is enough for a test.
inline outcome outcome_of_tls(const tutti::tcp_options& options, const tls_work& work) {
  return outcome_of([&] { tutti::run_tcp_tls(options, work); });
}

/// `work(comm)` on each rank, a thread of its own.
inline std::vector<outcome> outcomes_of_tls(const std::vector<tutti::tcp_options>& job, const tls_work& work) {
  std::vector<outcome> result(job.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < job.size(); ++rank)
    threads.emplace_back([&, rank] { result[rank] = outcome_of_tls(job[rank], work); });
  for (std::thread& t : threads) t.join();
  return result;
}

/// The same, each a process of its own.
inline process_outcomes outcomes_of_tls_processes(const std::vector<tutti::tcp_options>& job, const tls_work& work) {
  const int ranks = static_cast<int>(job.size());
  const shared_with_children<rank_report> reports(ranks);
  std::vector<std::unique_ptr<child_process>> processes;
  {
    const tutti::detail::descriptor_owner listener(job[0].listener);
    for (int rank = 0; rank < ranks; ++rank)
      processes.push_back(std::make_unique<child_process>([&] {
        if (rank != 0) close(listener.get());
        reports[rank].write(outcome_of_tls(job[static_cast<std::size_t>(rank)], work));
        return 0;
      }));
  }
  for (auto& process : processes) process->end();
  return collected(reports, ranks);
}

}  // namespace test
