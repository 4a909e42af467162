// SPDX-License-Identifier: BSL-1.0
// expect: ignoring return value
#include <tutti/tutti.hpp>

#include <vector>

#pragma GCC diagnostic error "-Wunused-result"

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4, comm.rank());
#if MISTAKE
    tutti::iallreduce(comm, values, std::plus{});
#else
    tutti::iallreduce(comm, values, std::plus{}).wait();
#endif
  });
}
