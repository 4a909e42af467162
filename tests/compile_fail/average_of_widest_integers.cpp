// SPDX-License-Identifier: BSL-1.0
// expect: average is defined for floating-point types and for integers that a wider type can sum
#include <tutti/tutti.hpp>

#include <array>

__extension__ using widest = __int128;

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::array<widest, 3> values{};
#else
    std::array<long long, 3> values{};
#endif
    tutti::allreduce(comm, values, tutti::average{});
  });
}
