// SPDX-License-Identifier: BSL-1.0
// expect: only reductions have an operation: of other collectives tell the bytes
#include <tutti/collective/explain.hpp>
#include <tutti/tutti.hpp>

#include <functional>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    tutti::explain<tutti::collective::broadcast, tutti::automatic, float, std::plus<>>(comm, 100);
#else
    tutti::explain<tutti::collective::allreduce, tutti::automatic, float, std::plus<>>(comm, 100);
#endif
  });
}
