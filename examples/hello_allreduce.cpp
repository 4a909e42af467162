// SPDX-License-Identifier: BSL-1.0
// Four ranks, each a thread, add up their vectors: every rank ends with the sum.

#include <tutti/tutti.hpp>

#include <cstdio>
#include <functional>
#include <vector>

int main() {
  tutti::run(4, [](auto& comm) {
    std::vector<float> data(1'000'000, static_cast<float>(comm.rank()));  // 0, 1, 2 and 3

    tutti::allreduce(comm, data, std::plus<>{});                       // tutti chooses the algorithm
    if (comm.rank() == 0) std::printf("sum      %g\n", data.front());  // 6

    tutti::allreduce<tutti::ring>(comm, data, tutti::average{});       // you choose it, at compile time
    if (comm.rank() == 0) std::printf("average  %g\n", data.front());  // four times 6, divided by 4
  });
}
