// SPDX-License-Identifier: BSL-1.0
// expect: the operation is not known to commute and this algorithm does not keep rank order
#include <tutti/tutti.hpp>

#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4, comm.rank());
    const auto second = [](int, int b) { return b; };
#if MISTAKE
    tutti::reduce_scatter<tutti::pat>(comm, values, second);
#else
    tutti::reduce_scatter<tutti::flat>(comm, values, second);
#endif
  });
}
