// SPDX-License-Identifier: BSL-1.0
// expect: no matching function for call to|no viable
#include <tutti/tutti.hpp>

#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4, comm.rank());
#if MISTAKE
    tutti::broadcast(comm, values);
#else
    tutti::broadcast(comm, values, 0);
#endif
  });
}
