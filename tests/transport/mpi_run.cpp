// SPDX-License-Identifier: BSL-1.0

// What a run over MPI does when all is well: groups of some ranks, long messages in pieces, several calls at a time, no
// memory once it is under way, the user's own messages.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "counted_new.hpp"

using test::run_mpi_on;

TEST_CASE("runs follow each other, on duplicates, on borrowed communicators, on all ranks") {
  const test::deadline limit(std::chrono::seconds(60));
  int sum = 0;
  const auto add = [&](auto& comm) {
    std::array<int, 1> one{1};
    tutti::allreduce(comm, one, std::plus{});
    sum += one[0];
  };
  for (int i = 0; i < 20; ++i) tutti::run_mpi(MPI_COMM_WORLD, add);
  for (int i = 0; i < 20; ++i) tutti::run_mpi(tutti::mpi_borrowed{MPI_COMM_WORLD}, add);
  tutti::run_mpi(add);
  CHECK(sum == 41 * test::world_size());
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  CHECK(handler == MPI_ERRORS_ARE_FATAL);  // as it was
}

TEST_CASE("the program's own messages on the same communicator stay its own") {
  const test::deadline limit(std::chrono::seconds(60));
  const int rank = test::world_rank();
  const int right = (rank + 1) % test::world_size();
  int out = rank;
  int in = -1;
  MPI_Request received = MPI_REQUEST_NULL;
  MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &received);
  tutti::run_mpi(MPI_COMM_WORLD, [&](auto& comm) {
    std::vector<int> values(10'000, 1);
    tutti::allreduce<tutti::flat>(comm, values, std::plus{});
    CHECK(values[0] == comm.size());
    CHECK(in == -1);
    tutti::barrier(comm);
    MPI_Send(&out, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
    tutti::barrier(comm);
  });
  MPI_Wait(&received, MPI_STATUS_IGNORE);
  CHECK(in == (rank + test::world_size() - 1) % test::world_size());
}

TEST_CASE("messages longer than MPI counts travel in pieces") {
  const test::deadline limit(std::chrono::seconds(60));
  const std::size_t usual = std::exchange(tutti::detail::mpi_most_bytes, 1000);
  run_mpi_on(4, [](auto& comm) {
    std::vector<unsigned> values(40'001);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<unsigned>(i) * 7U;
    tutti::broadcast<tutti::binomial>(comm, values, 1);
    tutti::allreduce<tutti::ring>(comm, values, std::plus{});
    tutti::allreduce<tutti::naive>(comm, values, std::plus{});
    bool right = true;
    for (std::size_t i = 0; i < values.size(); ++i) right &= values[i] == static_cast<unsigned>(i) * 7U * 16U;
    CHECK(right);
  });
  tutti::detail::mpi_most_bytes = usual;
}

TEST_CASE("nonblocking calls go on beside each other and blocking ones") {
  const test::deadline limit(std::chrono::seconds(60));
  run_mpi_on(3, [](auto& comm) {
    std::vector<std::vector<float>> vectors;
    for (int i = 0; i < 5; ++i) vectors.emplace_back(static_cast<std::size_t>(1) << (4 * i), 1.0F);
    std::vector<tutti::pending<std::remove_reference_t<decltype(comm)>>> pending;
    for (auto& v : vectors) pending.push_back(tutti::iallreduce(comm, v, std::plus{}));
    std::vector<int> blocking(30'000, comm.rank());
    tutti::allreduce(comm, blocking, tutti::maximum{});
    CHECK(blocking.back() == 2);
    for (std::size_t i = pending.size(); i-- > 0;) pending[i].wait();
    for (const auto& v : vectors) CHECK((v.front() == 3 && v.back() == 3));
  });
}

TEST_CASE("once a run is under way it allocates nothing") {
  const test::deadline limit(std::chrono::seconds(60));
  run_mpi_on(2, [](auto& comm) {
    std::vector<float> small(10, 1.0F);
    std::vector<float> large(50'000, 1.0F);
    const auto once = [&] {
      tutti::allreduce(comm, small, tutti::maximum{});
      tutti::allreduce<tutti::ring>(comm, large, tutti::maximum{});
      tutti::allreduce<tutti::flat>(comm, large, tutti::maximum{});
      tutti::broadcast(comm, large, 0);
    };
    // In 120 calls there may be more letters on their way than ever before, or a note: but not always.
    std::vector<long> most(1, 30);
    for (int stretch = 0; stretch < 20 && most[0] >= 30; ++stretch) {
      const auto before = allocations;
      for (int i = 0; i < 30; ++i) once();
      most[0] = static_cast<long>(allocations - before);
      tutti::allreduce(comm, most, tutti::maximum{});
    }
    CHECK(most[0] < 30);
  });
}

TEST_CASE("some ranks are a group of their own, in the order given, and of such a group again") {
  const test::deadline limit(std::chrono::seconds(60));
  run_mpi_on(7, [](tutti::communicator<tutti::mpi>& comm) {
    const std::array<std::vector<int>, 2> members{{{6, 4, 2, 0}, {1, 3, 5}}};
    CHECK(comm.transport().next_group() == 1);
    const auto& mine = members[static_cast<std::size_t>(comm.rank() % 2)];
    comm.timeout(std::chrono::seconds(50));
    std::optional<tutti::communicator<tutti::mpi>> inner;
    {
      tutti::communicator<tutti::mpi> some{comm.transport().subgroup(1, mine)};
      CHECK(comm.transport().next_group() == 2);
      CHECK(some.size() == static_cast<int>(mine.size()));
      CHECK(mine[static_cast<std::size_t>(some.rank())] == comm.rank());
      std::vector<int> from(1, comm.rank());
      std::vector<int> all(mine.size());
      tutti::allgather(some, from, all);
      CHECK(all == mine);
      std::vector<int> large(20'000, 1);
      std::vector<int> whole(20'000, 1);
      auto pending = tutti::iallreduce(comm, whole, std::plus{});
      tutti::allreduce(some, large, std::plus{});
      pending.wait();
      CHECK(large[19'999] == some.size());
      CHECK(whole[19'999] == comm.size());
      if (some.rank() < 2) inner.emplace(some.transport().subgroup(2, std::array{1, 0}));
    }
    // Without the one that it was made of.
    if (inner) {
      std::vector<int> both(2);
      tutti::allgather(*inner, std::vector<int>(1, comm.rank()), both);
      CHECK(both == std::vector<int>{mine[1], mine[0]});
      std::vector<int> large(20'000, 1);
      tutti::allreduce(*inner, large, std::plus{});
      CHECK(large[7] == 2);
    }
    tutti::barrier(comm);
  });
}

TEST_CASE("groups come and go thousands of times") {
  const test::deadline limit(std::chrono::seconds(100));
  run_mpi_on(2, [](tutti::communicator<tutti::mpi>& comm) {
    const std::array both{0, 1};
    for (int i = 1; i <= 3000; ++i) {
      tutti::communicator<tutti::mpi> again{comm.transport().subgroup(i, both)};
      std::array<int, 1> one{i};
      if (i % 100 == 0) tutti::allreduce(again, one, std::plus{});
    }
    tutti::barrier(comm);
  });
}
