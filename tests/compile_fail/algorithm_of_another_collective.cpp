// SPDX-License-Identifier: BSL-1.0
// expect: this algorithm does not implement this collective
#include <tutti/tutti.hpp>

#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4);
#if MISTAKE
    tutti::allgather<tutti::binomial>(comm, values);
#else
    tutti::broadcast<tutti::binomial>(comm, values, 0);
#endif
  });
}
