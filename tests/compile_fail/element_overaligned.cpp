// SPDX-License-Identifier: BSL-1.0
// expect: elements must not be aligned to more than 64 bytes
#include <tutti/tutti.hpp>

#include <array>
#include <cstddef>

#if MISTAKE
constexpr std::size_t alignment = 128;
#else
constexpr std::size_t alignment = 64;
#endif
struct alignas(alignment) element {
  float values[16];
};

int main() {
  tutti::run(2, [](auto& comm) {
    std::array<element, 3> values{};
    tutti::broadcast(comm, values, 0);
  });
}
