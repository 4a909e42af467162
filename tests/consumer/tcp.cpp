// SPDX-License-Identifier: BSL-1.0
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <array>
#include <cstdlib>
#include <functional>

int main() {
  int sum = 0;
  tutti::run_tcp(2, [&](auto& comm) {
    std::array<int, 1> value{comm.rank() + 1};
    tutti::allreduce(comm, value, std::plus{});
    if (comm.rank() == 0) sum = value[0];
  });
  return sum == 3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
