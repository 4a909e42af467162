// SPDX-License-Identifier: BSL-1.0
// expect: the operation must be callable with two accumulators and give something that converts to one
#include <tutti/tutti.hpp>

#include <array>

struct sum {
#if MISTAKE
  float* operator()(float* a, float*) const { return a; }
#else
  double operator()(double a, double b) const { return a + b; }
#endif
};

template <>
struct tutti::accumulator<float, sum> {
  using type = double;
};

int main() {
  tutti::run(2, [](auto& comm) {
    std::array<float, 3> values{};
    tutti::allreduce(comm, values, sum{});
  });
}
