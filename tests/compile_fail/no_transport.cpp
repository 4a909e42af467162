// SPDX-License-Identifier: BSL-1.0
// expect: constraint
// expect: transport
#include <tutti/tutti.hpp>

struct almost : tutti::threads {
  using tutti::threads::threads;
  // A transport must say where this rank stands.
#if MISTAKE
  int rank() const = delete;
#endif
};

static_assert(sizeof(tutti::communicator<almost>) != 0);

int main() {}
