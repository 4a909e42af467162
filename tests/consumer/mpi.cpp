// SPDX-License-Identifier: BSL-1.0
#include <tutti/run_mpi.hpp>
#include <tutti/tutti.hpp>

#include <array>
#include <cstdlib>
#include <functional>

// Started without a launcher it is the only rank.
int main() {
  int sum = 0;
  tutti::run_mpi([&](auto& comm) {
    std::array<int, 1> value{comm.size()};
    tutti::allreduce(comm, value, std::plus{});
    tutti::allreduce<tutti::native>(comm, value, std::plus{});
    sum = value[0];
  });
  return sum == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
