// SPDX-License-Identifier: BSL-1.0

// What the choice among algorithms counts, and what it takes where ranks share memory and have a processor each.

#include <tutti/communicator/communicator.hpp>
#include <tutti/transport/processes.hpp>
#include <tutti/tutti.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace {

using tutti::collective;
using tutti::schedule_for;

template <collective C, class A>
bool exchanges(int ranks) {
  return tutti::detail::exchanges(tutti::detail::make_schedule<schedule_for<C, A>>(0), ranks);
}

template <collective C, class A, class Transport = tutti::processes>
double seconds(int ranks, std::size_t bytes) {
  using predicted = typename tutti::communicator<Transport>::predicted_cost;
  using S = schedule_for<C, A>;
  const auto cost = tutti::detail::predict<predicted, S>(ranks, Transport::costs_where(false));
  return tutti::detail::seconds<S>(cost, bytes);
}

/// From so many bytes on, about, an allreduce goes by blocks.
template <class Transport>
std::size_t least_by_blocks(int ranks) {
  std::size_t bytes = 8;
  while (seconds<collective::allreduce, tutti::naive, Transport>(ranks, bytes) <=
         seconds<collective::allreduce, tutti::flat, Transport>(ranks, bytes))
    bytes += 8 + bytes / 64;
  return bytes;
}

/// An allreduce of so many ranks goes by blocks from more bytes on than `more_than`, and from fewer than `less_than`.
struct by_blocks {
  int ranks;
  std::size_t more_than;
  std::size_t less_than;
};
template <class Transport>
void check_by_blocks(std::initializer_list<by_blocks> expected) {
  for (const by_blocks& each : expected) {
    CAPTURE(each.ranks);
    CHECK(least_by_blocks<Transport>(each.ranks) > each.more_than);
    CHECK(least_by_blocks<Transport>(each.ranks) < each.less_than);
  }
}

}  // namespace

TEST_CASE("where nobody receives after it has sent, all goes one way") {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    CAPTURE(ranks);
    CHECK_FALSE(exchanges<collective::reduce, tutti::flat>(ranks));
    CHECK_FALSE(exchanges<collective::reduce, tutti::binomial>(ranks));
    CHECK_FALSE(exchanges<collective::gather, tutti::binomial>(ranks));
    CHECK_FALSE(exchanges<collective::broadcast, tutti::binomial>(ranks));
    CHECK_FALSE(exchanges<collective::scatter, tutti::flat>(ranks));
    CHECK(exchanges<collective::reduce, tutti::reduce_scatter_gather>(ranks));
    CHECK(exchanges<collective::allgather, tutti::ring>(ranks));
    CHECK(exchanges<collective::allreduce, tutti::naive>(ranks));
    // To the root and back: a rank waits for the answer to what it has sent.
    CHECK(exchanges<collective::allreduce, tutti::binomial>(ranks));
    CHECK(exchanges<collective::allreduce, tutti::single_master>(ranks));
    CHECK(exchanges<collective::barrier, tutti::flat>(ranks));
  }
}

TEST_CASE("a reduction among many goes to the root at once, then along a tree, then by blocks") {
  const auto flat = [](std::size_t bytes) { return seconds<collective::reduce, tutti::flat>(16, bytes); };
  const auto tree = [](std::size_t bytes) { return seconds<collective::reduce, tutti::binomial>(16, bytes); };
  const auto blocks = [](std::size_t bytes) {
    return seconds<collective::reduce, tutti::reduce_scatter_gather>(16, bytes);
  };
  CHECK(flat(8) < tree(8));
  CHECK(flat(8) < blocks(8));
  for (const std::size_t bytes : {512U, 1024U, 2048U, 4096U}) {
    CAPTURE(bytes);
    CHECK(tree(bytes) < flat(bytes));
    CHECK(tree(bytes) < blocks(bytes));
  }
  CHECK(blocks(65'536) < tree(65'536));
  CHECK(blocks(65'536) < flat(65'536));
}

TEST_CASE("what is to have one order goes to and fro along a tree only where that is no longer than to exchange") {
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    CAPTURE(ranks);
    CHECK(seconds<collective::allreduce, tutti::recursive_doubling>(ranks, 8) <
          seconds<collective::allreduce, tutti::binomial>(ranks, 8));
  }
}

TEST_CASE("an allreduce among many goes by blocks sooner than among few") {
  // As measured between threads: 2.0 and 1.7 us of 512 bytes among 16 ranks; 1.3 and 1.6 us of 512 and 2.5 and 1.9 us
  // of 1024 among 8; 43 and 46 us of 1 MiB between two, 53 and 46 us of 1.25 MiB.
  constexpr std::size_t any = SIZE_MAX;
  check_by_blocks<tutti::threads>(
      {{2, 786'432, 1'310'720}, {4, 2048, any}, {8, 512, 2048}, {16, tutti::detail::message_slot::inline_bytes, 512}});
  // Between processes 2.4 and 1.8 us of 512 bytes among 16; 1.5 and 1.5 us among 8; 2.4 and 2.7 us of 4096 among 4; 35
  // and 32 us of 512 KiB between two.
  check_by_blocks<tutti::processes>({{2, 262'144, 1'048'576}, {4, 2048, any}, {8, 512, 2048}, {16, 128, 512}});
}
