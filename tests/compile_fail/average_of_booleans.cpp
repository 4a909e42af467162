// SPDX-License-Identifier: BSL-1.0
// expect: average is defined for floating-point types and for integers that a wider type can sum
#include <tutti/tutti.hpp>

#include <array>
#include <cstdint>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::array<bool, 3> values{};
#else
    std::array<std::int64_t, 3> values{};
#endif
    tutti::allreduce(comm, values, tutti::average{});
  });
}
