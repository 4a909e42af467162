// SPDX-License-Identifier: BSL-1.0
// expect: elements must be trivially copyable, since their bytes travel between ranks
#include <tutti/tutti.hpp>

#include <string>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::vector<std::string> values(3);
#else
    std::vector<char> values(3);
#endif
    tutti::broadcast(comm, values, 0);
  });
}
