// SPDX-License-Identifier: BSL-1.0
// hello_allreduce where MPI has started the ranks, with whichever MPI this is compiled:
//   mpirun -n 4 hello_mpi

#include <tutti/run_mpi.hpp>
#include <tutti/tutti.hpp>

#include <cstdio>
#include <functional>
#include <vector>

int main() {
  tutti::run_mpi([](auto& comm) {
    std::vector<float> data(1'000'000, 1.0F);

    tutti::allreduce(comm, data, std::plus<>{});
    if (comm.rank() == 0) std::printf("ranks    %g\n", data[0]);

    tutti::allreduce<tutti::native>(comm, data, tutti::average{});  // by MPI_Allreduce
    if (comm.rank() == 0) std::printf("average  %g\n", data[0]);
  });
}
