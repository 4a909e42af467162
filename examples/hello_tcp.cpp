// SPDX-License-Identifier: BSL-1.0
// hello_allreduce where ranks talk through TCP, on one host or several. Alone it runs four threads that talk over
// loopback; with an argument it is one of the ranks that a launcher or a script has started:
//   mpirun -n 4 hello_tcp launched
//   MASTER_ADDR=node1 MASTER_PORT=29500 TUTTI_RANK=0 TUTTI_SIZE=4 hello_tcp launched

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <cstdio>
#include <functional>
#include <vector>

int main(int argc, char**) {
  const auto rank = [](auto& comm) {
    std::vector<float> data(1'000'000, static_cast<float>(comm.rank()));  // 0, 1, 2 and 3

    tutti::allreduce(comm, data, std::plus<>{});
    if (comm.rank() == 0) std::printf("sum      %g\n", data[0]);  // 6

    tutti::allreduce<tutti::ring>(comm, data, tutti::average{});
    if (comm.rank() == 0) std::printf("average  %g\n", data[0]);  // four times 6, divided by 4
  };
  if (argc > 1) {
    tutti::run_tcp(rank);
  } else {
    tutti::run_tcp(4, rank);
  }
}
