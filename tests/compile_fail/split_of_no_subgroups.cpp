// SPDX-License-Identifier: BSL-1.0
// expect: this transport cannot make groups of some of its ranks
#include <tutti/tutti.hpp>

#include <utility>

struct whole_only : tutti::threads {
  using tutti::threads::threads;
  whole_only(tutti::threads&& whole) : tutti::threads(std::move(whole)) {}
#if !MISTAKE
  whole_only subgroup(int number, std::span<const int> members) { return tutti::threads::subgroup(number, members); }
#endif
};

void divide(tutti::communicator<whole_only>& comm) { const auto part = comm.split(0); }

int main() {}
