// SPDX-License-Identifier: BSL-1.0

// Schedules of the user's own whose rounds are some of messages and some shared: what waits for room in a channel is
// sent also while its sender waits at the boards.

#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

using tutti::block_set;
using tutti::place;

namespace {

/// More messages than a channel holds, too large together to travel as one.
constexpr int blocks = 24;
constexpr std::size_t elements = blocks * 256;
constexpr block_set one_by_one{blocks - 1, -1, blocks};
constexpr block_set in_one_run{0, 1, blocks};

/// Rank 0 gives all it has to rank 1, block by block, and in a shared round one of them shows all to the other.
template <int From>
struct give_then_show {
  static constexpr std::string_view name = From == 0 ? "give_then_show" : "give_then_look";
  struct allreduce {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;

    constexpr int rounds(place) const { return 2; }
    constexpr int blocks(int) const { return ::blocks; }
    constexpr bool shared(place, int k) const { return k == 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      if (k == 0 && at.rank == 0) {
        emit(tutti::send_to{1, one_by_one});
      } else if (k == 0) {
        emit(tutti::combine{0, one_by_one, tutti::side::left});
      } else if (at.rank == From) {
        emit(tutti::send_to{1 - From, in_one_run});
      } else {
        emit(tutti::recv_from{From, in_one_run});
      }
    }
  };
};

void expect_all(const std::vector<int>& data, int value) {
  if (!std::ranges::all_of(data, [=](int x) { return x == value; })) throw std::runtime_error("wrong result");
}

constexpr auto calls = [](auto& comm) {
  comm.timeout(std::chrono::seconds(20));
  const std::vector<int> in(elements, comm.rank() + 1);
  std::vector<int> out(elements);
  for (int again = 0; again < 3; ++again) {
    tutti::allreduce<give_then_show<1>>(comm, in, out, std::plus<>{});
    expect_all(out, 3);
    // What rank 1 has folded is overwritten by what it is shown.
    tutti::allreduce<give_then_show<0>>(comm, in, out, std::plus<>{});
    expect_all(out, 1);
  }
};

}  // namespace

TEST_CASE("threads wait at the boards and still send what had no room") { CHECK_NOTHROW(tutti::run(2, calls)); }

TEST_CASE("processes wait at the boards and still send what had no room") {
  CHECK_NOTHROW(tutti::run_processes(2, calls));
}
