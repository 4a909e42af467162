// SPDX-License-Identifier: BSL-1.0
// expect: a buffer must be a contiguous range that knows its size
#include <tutti/tutti.hpp>

#include <deque>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    std::deque<int> values(3);
#else
    std::vector<int> values(3);
#endif
    tutti::broadcast(comm, values, 0);
  });
}
