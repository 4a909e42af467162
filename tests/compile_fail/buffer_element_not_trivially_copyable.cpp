// SPDX-License-Identifier: BSL-1.0
// expect: the elements of a buffer must be trivially copyable
#include <tutti/tutti.hpp>

#include <string>

int main() {
  tutti::run(2, [](auto& comm) {
#if MISTAKE
    const auto values = comm.template allocate<std::string>(3);
#else
    const auto values = comm.template allocate<char>(3);
#endif
    if (values.size() != 3) throw 1;
  });
}
