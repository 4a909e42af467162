// SPDX-License-Identifier: BSL-1.0
#include "rank.hpp"
#include "ranks.hpp"

#include <tutti/run.hpp>

namespace digits {

template void train_rank(tutti::communicator<tutti::threads>&, const task&, const options&, std::ofstream&);

void train_on_threads(const task& work, const options& wanted, std::ofstream& chart) {
  tutti::run(wanted.ranks, [&](auto& comm) { train_rank(comm, work, wanted, chart); });
}

}  // namespace digits
