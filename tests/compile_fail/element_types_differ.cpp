// SPDX-License-Identifier: BSL-1.0
// expect: input and output have different element types
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    const std::vector<int> in(4);
#if MISTAKE
    std::vector<float> out(4);
#else
    std::vector<int> out(4);
#endif
    tutti::allreduce(comm, in, out, std::plus{});
  });
}
