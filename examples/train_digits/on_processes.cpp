// SPDX-License-Identifier: BSL-1.0
#include "rank.hpp"
#include "ranks.hpp"

#include <tutti/run_processes.hpp>

namespace digits {

template void train_rank(tutti::communicator<tutti::processes>&, const task&, const options&, std::ofstream&);

void train_on_processes(const task& work, const options& wanted, std::ofstream& chart) {
  const auto rank = [&](auto& comm) { train_rank(comm, work, wanted, chart); };
  if (wanted.transport == "launched") return tutti::run_processes(rank);
  tutti::run_processes(wanted.ranks, rank);
}

}  // namespace digits
