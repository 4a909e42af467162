// SPDX-License-Identifier: BSL-1.0
#include "rank.hpp"
#include "ranks.hpp"

#include <tutti/run_mpi.hpp>

namespace digits {

int rank_of_mpi(int& size) {
  int rank = 0;
  tutti::run_mpi([&](auto& comm) {
    rank = comm.rank();
    size = comm.size();
  });
  return rank;
}

void train_on_mpi(const task& work, const options& wanted, std::ofstream& chart) {
  tutti::run_mpi([&](auto& comm) { train_rank(comm, work, wanted, chart); });
}

}  // namespace digits
