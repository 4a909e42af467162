// SPDX-License-Identifier: BSL-1.0
// expect: native stands for a collective of the library below the transport, and this transport has none: it is for mpi
#include <tutti/tutti.hpp>

#include <functional>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<float> values(4, 0.1F);
#if MISTAKE
    tutti::allreduce<tutti::native>(comm, values, std::plus{});
#else
    tutti::allreduce(comm, values, std::plus{});
#endif
  });
}
