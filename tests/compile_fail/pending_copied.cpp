// SPDX-License-Identifier: BSL-1.0
// expect: deleted
#include <tutti/tutti.hpp>

#include <utility>
#include <vector>

int main() {
  tutti::run(2, [](tutti::communicator<tutti::threads>& comm) {
    std::vector<int> values(4, comm.rank());
    auto pending = tutti::iallreduce(comm, values, std::plus{});
#if MISTAKE
    auto mine = pending;
#else
    auto mine = std::move(pending);
#endif
    mine.wait();
  });
}
