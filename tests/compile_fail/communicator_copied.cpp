// SPDX-License-Identifier: BSL-1.0
// expect: deleted
#include <tutti/tutti.hpp>

int main() {
  tutti::run(2, [](tutti::communicator<tutti::threads>& comm) {
#if MISTAKE
    auto mine = comm;
#else
    auto& mine = comm;
#endif
    tutti::barrier(mine);
  });
}
