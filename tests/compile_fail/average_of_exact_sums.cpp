// SPDX-License-Identifier: BSL-1.0
// expect: average is defined for floating-point types and for integers that a wider type can sum
#include <tutti/tutti.hpp>

#include <array>
#include <functional>

int main() {
  tutti::run(2, [](auto& comm) {
    std::array<tutti::exact_sum<float>, 3> values{};
#if MISTAKE
    tutti::allreduce(comm, values, tutti::average{});
#else
    tutti::allreduce(comm, values, std::plus<>{});
#endif
  });
}
