// SPDX-License-Identifier: BSL-1.0
#include <tutti/tutti.hpp>

#include <cstdlib>
#include <functional>
#include <vector>

int main() {
  int wrong = 0;
  tutti::run(3, [&](auto& comm) {
    std::vector<int> values(5, comm.rank() + 1);
    tutti::allreduce(comm, values, std::plus{});
    // Every rank holds the same sums: one of them reports.
    if (comm.rank() == 0) {
      for (const int value : values) wrong += value != 6;
    }
  });
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
