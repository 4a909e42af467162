// SPDX-License-Identifier: BSL-1.0
// expect: the operation must be callable with two elements and give something that converts to one
#include <tutti/tutti.hpp>

#include <string>
#include <vector>

int main() {
  tutti::run(2, [](auto& comm) {
    std::vector<int> values(4);
#if MISTAKE
    const auto operation = [](const std::string& a, const std::string&) { return a; };
#else
    const auto operation = [](int a, int b) { return a < b ? a : b; };
#endif
    tutti::allreduce(comm, values, operation);
  });
}
