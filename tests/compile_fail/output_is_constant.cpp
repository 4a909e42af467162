// SPDX-License-Identifier: BSL-1.0
// expect: the output buffer's elements are const
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    const std::vector<int> values(4);
#else
    std::vector<int> values(4);
#endif
    tutti::allreduce(comm, values, std::plus{});
  });
}
