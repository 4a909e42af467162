// SPDX-License-Identifier: BSL-1.0

// What goes wrong on one rank is told on all.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using test::run_mpi_on;
using communicator = tutti::communicator<tutti::mpi>;

/// What came out on this rank: the kind, whom it blames and the text.
struct outcome {
  std::string kind = "nothing";
  int peer = -1;
  std::string text;
  bool says(const char* part) const { return text.find(part) != std::string::npos; }
};
template <class F>
outcome outcome_of(F&& f) {
  try {
    f();
  } catch (const tutti::peer_failed& e) {
    return {"peer_failed", e.peer(), e.what()};
  } catch (const tutti::timed_out& e) {
    return {"timed_out", e.peer(), e.what()};
  } catch (const tutti::error& e) {
    return {e.code().message(), -1, e.what()};
  } catch (const std::exception& e) {
    return {"other", -1, e.what()};
  }
  return {};
}
/// Of `f` on so many ranks; nothing on the others.
template <class F>
outcome outcome_on(int ranks, F&& f) {
  return outcome_of([&] { run_mpi_on(ranks, f); });
}
bool takes_part(int ranks) { return test::world_rank() < ranks; }

/// All ranks have the same text.
bool same_everywhere(const outcome& mine, int ranks) {
  bool same = true;
  run_mpi_on(ranks, [&](communicator& comm) {
    std::vector<char> text(2000, '\0');
    for (std::size_t i = 0; i < mine.text.size() && i < text.size(); ++i) text[i] = mine.text[i];
    const std::vector<char> own = text;
    tutti::broadcast(comm, text, 0);
    same = text == own;
  });
  return same;
}

}  // namespace

TEST_CASE("a rank that throws fails the others, wherever they wait") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const std::size_t n : {std::size_t{1}, std::size_t{100'000}}) {
    CAPTURE(n);
    const outcome o = outcome_on(5, [&](communicator& comm) {
      std::vector<float> values(n);
      tutti::allreduce(comm, values, std::plus{});
      if (comm.rank() == 2) throw std::runtime_error("no more paper");
      for (;;) tutti::allreduce<tutti::ring>(comm, values, std::plus{});
    });
    if (!takes_part(5)) continue;
    if (test::world_rank() == 2) {
      CHECK(o.kind == "other");
      CHECK(o.says("no more paper"));
    } else {
      CHECK(o.kind == "peer_failed");
      CHECK(o.peer == 2);
      CHECK(o.says("rank 2 failed: no more paper"));
    }
  }
}

TEST_CASE("an operation that throws fails the group") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(3, [](communicator& comm) {
    std::vector<int> values(10, comm.rank());
    const auto fold = [&](int a, int b) {
      if (comm.rank() == 1) throw std::runtime_error("does not add");
      return a + b;
    };
    for (;;) tutti::allreduce(comm, values, tutti::commutative(fold));
  });
  if (!takes_part(3)) return;
  CHECK(o.says("does not add"));
  CHECK(o.kind == (test::world_rank() == 1 ? "other" : "peer_failed"));
}

TEST_CASE("calls that do not fit together are named on every rank: another length") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(4, [](communicator& comm) {
    std::vector<float> values(comm.rank() == 3 ? 11 : 10);
    tutti::allreduce(comm, values, std::plus{});
    tutti::barrier(comm);
  });
  if (!takes_part(4)) return;
  CHECK(o.kind == "ranks disagree");
  CHECK(o.says("allreduce of 11 x float"));
  CHECK(o.says("allreduce of 10 x float"));
  CHECK(same_everywhere(o, 4));
}

TEST_CASE("calls that do not fit together are named on every rank: a small and a large message") {
  const test::deadline limit(std::chrono::seconds(60));
  for (const int large : {0, 1}) {
    const outcome o = outcome_on(2, [&](communicator& comm) {
      std::vector<float> values(comm.rank() == large ? 100'000 : 10);
      tutti::broadcast(comm, values, 0);
      tutti::barrier(comm);
    });
    if (!takes_part(2)) continue;
    CHECK(o.kind == "ranks disagree");
    CHECK(o.says("broadcast of 100000 x float"));
    CHECK(o.says("broadcast of 10 x float"));
    CHECK(same_everywhere(o, 2));
  }
}

TEST_CASE("calls that do not fit together are named on every rank: two large messages") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(2, [&](communicator& comm) {
    std::vector<float> values(comm.rank() == 1 ? 100'000 : 200'000);
    tutti::allreduce<tutti::ring>(comm, values, std::plus{});
  });
  if (!takes_part(2)) return;
  CHECK(o.kind == "ranks disagree");
  CHECK(o.says("100000"));
  CHECK(o.says("200000"));
}

TEST_CASE("calls that do not fit together are named on every rank: each waits for the other") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(2, [&](communicator& comm) {
    std::vector<float> values(10);
    tutti::broadcast(comm, values, 1 - comm.rank());
  });
  if (!takes_part(2)) return;
  CHECK(o.kind == "ranks disagree");
  CHECK(o.says("root 0"));
  CHECK(o.says("root 1"));
  CHECK(same_everywhere(o, 2));
}

TEST_CASE("calls that do not fit together are named on every rank: one call more, to nobody's harm") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(3, [&](communicator& comm) {
    std::vector<float> values(10);
    tutti::barrier(comm);
    if (comm.rank() == 0) tutti::broadcast(comm, values, 0);
  });
  if (!takes_part(3)) return;
  CHECK(o.kind == "ranks disagree");
  CHECK(o.says("broadcast of 10 x float"));
  CHECK(same_everywhere(o, 3));
}

TEST_CASE("a rank that has left is not waited for") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(3, [&](communicator& comm) {
    std::vector<float> values(10);
    if (comm.rank() != 1) tutti::broadcast(comm, values, 1);
  });
  if (!takes_part(3)) return;
  CHECK(o.kind == "peer_failed");
  CHECK(o.peer == 1);
  CHECK(o.says("rank 1 left while rank"));
}

TEST_CASE("a deadline that passes on one rank is told on all") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(3, [&](communicator& comm) {
    std::vector<float> values(50'000);
    if (comm.rank() == 0) comm.timeout(std::chrono::milliseconds(30));
    if (comm.rank() == 2) {
      // It computes until it is told that it is late.
      for (;;) comm.transport().check();
    }
    tutti::allreduce<tutti::ring>(comm, values, std::plus{});
  });
  if (!takes_part(3)) return;
  CHECK(o.kind == "timed_out");
  CHECK(o.peer == 2);
  CHECK(o.says("rank 2 was late: rank 0 waited"));
}

TEST_CASE("any thread aborts, whatever the rank itself waits for") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(4, [](communicator& comm) {
    std::vector<float> values(50'000);
    std::thread other;
    if (comm.rank() == 1) other = std::thread([&comm] { comm.abort("enough"); });
    const outcome inner = outcome_of([&] {
      if (comm.rank() != 3) tutti::allreduce(comm, values, std::plus{});
      for (;;) tutti::barrier(comm);
    });
    if (other.joinable()) other.join();
    CHECK(inner.kind == "peer_failed");
    comm.transport().check();
  });
  if (!takes_part(4)) return;
  CHECK(o.kind == "peer_failed");
  CHECK(o.peer == 1);
  CHECK(o.says("rank 1 aborted: enough"));
}

TEST_CASE("what goes wrong in a group of some ranks ends that group, and nothing else") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(5, [](communicator& comm) {
    const std::vector<int> odd{1, 3};
    for (int number = 1; number < 4; ++number) {
      if (comm.rank() % 2 != 0) {
        communicator some{comm.transport().subgroup(number, odd)};
        const outcome inner = outcome_of([&] {
          std::vector<float> values(some.rank() == 0 ? 30'000 : 20'000);
          if (number == 3 && some.rank() == 1) some.abort("not this one");
          tutti::allreduce<tutti::ring>(some, values, std::plus{});
        });
        CHECK(inner.kind == (number == 3 ? "peer_failed" : "ranks disagree"));
        CHECK(inner.says(" (ranks of a communicator of ranks 1, 3)"));
        if (number == 3) CHECK(inner.says("rank 1 aborted: not this one"));
      }
      std::vector<float> values(30'000, 1.0F);
      tutti::allreduce(comm, values, std::plus{});
      CHECK(values[3] == 5);
    }
  });
  CHECK(o.kind == "nothing");
}

TEST_CASE("what ends the whole ends its groups") {
  const test::deadline limit(std::chrono::seconds(60));
  const outcome o = outcome_on(4, [](communicator& comm) {
    const std::vector<int> low{0, 1, 2};
    if (comm.rank() == 3) throw std::runtime_error("alone");
    communicator some{comm.transport().subgroup(1, low)};
    for (;;) tutti::barrier(some);
  });
  if (!takes_part(4)) return;
  CHECK(o.says(test::world_rank() == 3 ? "alone" : "rank 3 failed: alone"));
}

TEST_CASE("what ends the whole is told in a group by its own ranks, and by those of the whole") {
  const test::deadline limit(std::chrono::seconds(60));
  const int me = test::world_rank();
  const std::array<std::vector<int>, 2> members{{{2, 0}, {3, 1}}};
  const auto wait_in_group = [&](communicator& comm, auto&& before) {
    communicator some{comm.transport().subgroup(1, members[static_cast<std::size_t>(comm.rank() % 2)])};
    before();
    for (;;) tutti::barrier(some);
  };
  const outcome aborted = outcome_on(4, [&](communicator& comm) {
    wait_in_group(comm, [&] {
      if (comm.rank() == 3) comm.abort("enough");
    });
  });
  if (!takes_part(4)) return;
  CAPTURE(aborted.text);
  CHECK(aborted.kind == "peer_failed");
  CHECK(aborted.peer == (me % 2 == 0 ? -1 : 0));
  CHECK(aborted.says(me % 2 == 0 ? "rank 3 aborted: enough (no rank of a communicator of ranks 2, 0)"
                                 : "rank 3 aborted: enough (rank 0 of a communicator of ranks 3, 1)"));
  const outcome differ = outcome_on(4, [&](communicator& comm) {
    std::vector<float> values(comm.rank() == 0 ? 11 : 10);
    wait_in_group(comm, [&] {
      if (comm.rank() < 2) tutti::broadcast<tutti::chain>(comm, values, 0);
    });
  });
  CAPTURE(differ.text);
  CHECK(differ.kind == "ranks disagree");
  CHECK(differ.says("; rank 1 called broadcast of 10 x float"));
  if (me == 2) CHECK(differ.says(" (ranks of the whole, not of a communicator of ranks 2, 0)"));
  if (me == 3) CHECK(differ.says(" (ranks of the whole, not of a communicator of ranks 3, 1)"));
}

TEST_CASE("wrong communicators are refused") {
  const auto nothing = [](communicator&) {};
  const outcome null = outcome_of([&] { tutti::run_mpi(MPI_COMM_NULL, nothing); });
  CHECK(null.kind == "wrong use");
  CHECK(null.says("MPI_COMM_NULL"));
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm both = MPI_COMM_NULL;
  const int side = test::world_rank() % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, test::world_rank(), &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 1, &both);
  const outcome inter = outcome_of([&] { tutti::run_mpi(both, nothing); });
  CHECK(inter.kind == "wrong use");
  CHECK(inter.says("intercommunicator"));
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
  const outcome lane = outcome_of([&] {
    tutti::run_mpi(MPI_COMM_SELF, [](communicator& comm) { static_cast<void>(comm.transport().make_lane(5000)); });
  });
  CHECK(lane.says("lane 5000 on rank 0: must be in [0, 1024)"));
}
