// SPDX-License-Identifier: BSL-1.0

// Whole collectives on the data plane of tcp: on sockets that hold little, in portions of any size, several at a time.

#include <tutti/tutti.hpp>

#include "counted_new.hpp"
#include "deadline.hpp"
#include "transport/tcp_data.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using numbers = std::vector<std::int64_t>;

/// Rank r's vector, and what the sum of those of all ranks is.
numbers of_rank(int rank, std::size_t count, int turn = 0) {
  numbers made(count);
  for (std::size_t i = 0; i < count; ++i)
    made[i] = (rank + 1) * (static_cast<std::int64_t>(i) + 1) + 1000 * static_cast<std::int64_t>(turn);
  return made;
}
numbers sum_of(int ranks, std::size_t count, int turn = 0) {
  numbers sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const numbers one = of_rank(rank, count, turn);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}
void expect(const numbers& got, const numbers& expected, const char* what) {
  if (got != expected) throw std::logic_error(what);
}

/// Several collectives, one after the other.
template <class Comm>
void several(Comm& comm, std::size_t count) {
  const int p = comm.size();
  const auto ranks = static_cast<std::size_t>(p);
  const auto rank = static_cast<std::size_t>(comm.rank());
  const numbers mine = of_rank(comm.rank(), count);
  const numbers sum = sum_of(p, count);
  numbers out(count);
  tutti::allreduce(comm, mine, out, std::plus{});
  expect(out, sum, "allreduce");
  out = mine;
  tutti::allreduce<tutti::ring>(comm, out, std::plus{});
  expect(out, sum, "ring");

  numbers all(count * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const numbers one = of_rank(static_cast<int>(r), count);
    std::copy(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(r * count));
  }
  numbers gathered(count * ranks);
  tutti::allgather(comm, mine, gathered);
  expect(gathered, all, "allgather");
  tutti::broadcast(comm, gathered, p - 1);
  expect(gathered, all, "broadcast");
  tutti::reduce_scatter(comm, all, out, std::plus{});
  numbers block = of_rank(comm.rank(), count);
  for (auto& x : block) x *= p;
  expect(out, block, "reduce_scatter");
  numbers exchanged(count * ranks);
  tutti::alltoall(comm, all, exchanged);
  for (std::size_t r = 0; r < ranks; ++r)
    expect({exchanged.begin() + static_cast<std::ptrdiff_t>(r * count),
            exchanged.begin() + static_cast<std::ptrdiff_t>((r + 1) * count)},
           mine, "alltoall");
  tutti::barrier(comm);
  tutti::scan(comm, std::span<const std::int64_t>(mine), std::span(out), std::plus{});
  numbers prefix = sum_of(comm.rank() + 1, count);
  expect(out, prefix, "scan");
  numbers root(rank == 0 ? count : 0);
  tutti::reduce(comm, mine, root, std::plus{}, 0);
  if (rank == 0) expect(root, sum, "reduce");
}

wiring with(std::size_t call_bytes, int buffer = 0, bool loopback = false) {
  wiring how;
  how.tuning.call_bytes = call_bytes;
  how.socket_buffer = buffer;
  how.loopback = loopback;
  how.on_demand = true;
  return how;
}

}  // namespace

TEST_CASE("collectives give the same over connections, for all numbers of ranks") {
  const deadline limit(60s);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::size_t count : {0U, 1U, 5U, 700U, 5000U}) {
      CAPTURE(ranks);
      CAPTURE(count);
      CHECK_NOTHROW(run_wired(ranks, with(1 << 30, 0, ranks % 2 == 0), [&](auto& comm) { several(comm, count); }));
    }
  }
}

TEST_CASE("collectives give the same in portions of 1, 7 and 4095 bytes and on sockets that hold little") {
  const deadline limit(120s);
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_wired(ranks, with(1, 4096), [&](auto& comm) { several(comm, 40); }));
    CHECK_NOTHROW(run_wired(ranks, with(7, 4096), [&](auto& comm) { several(comm, 150); }));
    CHECK_NOTHROW(run_wired(ranks, with(4095, 4096), [&](auto& comm) { several(comm, 5000); }));
    CHECK_NOTHROW(run_wired(ranks, with(1 << 30, 4096, true), [&](auto& comm) { several(comm, 5000); }));
  }
}

TEST_CASE("large vectors travel in pieces") {
  const deadline limit(60s);
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{64} << 10, std::size_t{256} << 10}) {
    wiring how = with(1 << 18, 0, true);
    how.tuning.piece_bytes = piece;
    CHECK_NOTHROW(run_wired(3, how, [&](auto& comm) { several(comm, piece == 1000 ? 5000 : 70'001); }));
  }
}

TEST_CASE("collectives that are pending at the same time share connections, and messages of one wait for no other") {
  const deadline limit(60s);
  for (const auto& how : {with(1 << 30), with(4095, 4096), with(7), with(1 << 18, 0, true)}) {
    wiring small = how;
    small.tuning.kept_bytes = 5000;  // lanes are paused often
    const std::size_t count = how.tuning.call_bytes == 7 ? 100 : 9000;
    for (const int ranks : {2, 3, 5}) {
      CAPTURE(ranks);
      CHECK_NOTHROW(run_wired(ranks, small, [&](auto& comm) {
        constexpr int turns = 8;
        std::array<numbers, turns> vectors;
        using pending = decltype(tutti::iallreduce(comm, vectors[0], std::plus{}));
        std::vector<pending> started;
        for (int turn = 0; turn < turns; ++turn) {
          vectors[static_cast<std::size_t>(turn)] = of_rank(comm.rank(), count, turn);
          started.push_back(tutti::iallreduce(comm, vectors[static_cast<std::size_t>(turn)], std::plus{}));
        }
        // Each rank waits in another order; a blocking one comes in between.
        for (int i = 0; i < turns; ++i) {
          const int turn = comm.rank() % 2 == 0 ? i : turns - 1 - i;
          if (i == 3) {
            numbers between = of_rank(comm.rank(), count);
            tutti::allreduce(comm, between, std::plus{});
            expect(between, sum_of(comm.size(), count), "blocking");
          }
          started[static_cast<std::size_t>(turn)].wait();
          expect(vectors[static_cast<std::size_t>(turn)], sum_of(comm.size(), count, turn), "pending");
        }
      }));
    }
  }
}

TEST_CASE("a rank that sleeps is woken, one that polls is not slowed down by it") {
  const deadline limit(60s);
  for (const auto busy : {0us, 50us, 8000us}) {
    for (const int ranks : {2, 4}) {
      wiring how = with(1 << 18, 0, true);
      how.tuning = tutti::detail::tcp_tuning::for_host(ranks, 2, busy);
      CHECK_NOTHROW(run_wired(ranks, how, [&](auto& comm) {
        for (int turn = 0; turn < 60; ++turn) {
          numbers one = of_rank(comm.rank(), 3, turn);
          tutti::allreduce(comm, one, std::plus{});
          expect(one, sum_of(comm.size(), 3, turn), "allreduce");
        }
      }));
    }
  }
}

TEST_CASE("a rank that fails or calls something else ends the collective on every rank, with the same text") {
  const deadline limit(60s);
  for (const int ranks : {2, 3, 5}) {
    std::string first;
    CHECK_THROWS_AS_MESSAGE(run_wired(ranks, with(1 << 18, 4096),
                                      [&](auto& comm) {
                                        numbers data(100'000, 1);
                                        tutti::allreduce(comm, data, std::plus{});
                                        if (comm.rank() == 1) throw std::runtime_error("on purpose");
                                        try {
                                          tutti::allreduce(comm, data, std::plus{});
                                        } catch (const tutti::peer_failed& e) {
                                          if (e.peer() != 1) throw std::logic_error("another rank is blamed");
                                          throw;
                                        }
                                      }),
                            std::runtime_error, "on purpose");
    CHECK_THROWS_AS(run_wired(ranks, with(1 << 18, 4096),
                              [&](auto& comm) {
                                numbers data(comm.rank() == 1 ? 100'001 : 100'000, 1);
                                tutti::allreduce(comm, data, std::plus{});
                              }),
                    tutti::mismatch);
  }
}

TEST_CASE("a collective allocates only the first time") {
  if (!counting) return;
  const deadline limit(60s);
  std::atomic<std::size_t> allocated{0};
  run_wired(2, with(1 << 18, 0, true), [&](auto& comm) {
    numbers small(4);
    numbers large(60'000);
    const auto once = [&] {
      tutti::allreduce(comm, small, std::plus{});
      tutti::allreduce(comm, large, std::plus{});
      tutti::broadcast(comm, large, 0);
      tutti::barrier(comm);
    };
    for (int i = 0; i < 50; ++i) once();
    const std::size_t before = allocations;
    for (int i = 0; i < 50; ++i) once();
    allocated += allocations - before;
  });
  CHECK(allocated < 20);  // of 400 calls: a queue may still grow, none allocates each time
}
