// SPDX-License-Identifier: BSL-1.0
// expect: this algorithm does not implement this collective
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

struct bubble_sort {};

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4);
#if MISTAKE
    tutti::allreduce<bubble_sort>(comm, values, std::plus{});
#else
    tutti::allreduce<tutti::ring>(comm, values, std::plus{});
#endif
  });
}
