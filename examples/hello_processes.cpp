// SPDX-License-Identifier: BSL-1.0
// hello_allreduce where every rank is a process. Alone it forks four; with an argument it is one of those that a
// launcher has started: mpirun -n 4 hello_processes launched

#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>

int main(int argc, char**) {
  const auto rank = [](auto& comm) {
    auto data = comm.template allocate<float>(1'000'000);  // where the other processes read it without a copy
    std::fill(data.begin(), data.end(), static_cast<float>(comm.rank()));  // 0, 1, 2 and 3

    tutti::allreduce(comm, data, std::plus<>{});
    if (comm.rank() == 0) std::printf("sum      %g\n", data[0]);  // 6

    tutti::allreduce<tutti::ring>(comm, data, tutti::average{});
    if (comm.rank() == 0) std::printf("average  %g\n", data[0]);  // four times 6, divided by 4
  };
  if (argc > 1) {
    tutti::run_processes(rank);
  } else {
    tutti::run_processes(4, rank);
  }
}
