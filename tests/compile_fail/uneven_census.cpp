// SPDX-License-Identifier: BSL-1.0
// expect: this algorithm folds in a different order on each rank, so ranks would round differently
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::vector<float> values(4, 0.1F);
#else
    std::vector<int> values(4, comm.rank());
#endif
    tutti::allreduce<tutti::census>(comm, values, std::plus{});
  });
}
