// SPDX-License-Identifier: BSL-1.0
// expect: average is not defined for scan and exscan
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<float> values(4, 0.1F);
#if MISTAKE
    tutti::scan(comm, values, tutti::average{});
#else
    tutti::scan(comm, values, std::plus{});
#endif
  });
}
