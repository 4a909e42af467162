// SPDX-License-Identifier: BSL-1.0
// expect: reproducible_sum is defined for floating-point types of 16, 32 and 64 bits
#include <tutti/tutti.hpp>

#include <array>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::array<int, 3> values{};
#else
    std::array<float, 3> values{};
#endif
    tutti::allreduce(comm, values, tutti::reproducible_sum{});
  });
}
