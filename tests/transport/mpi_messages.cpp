// SPDX-License-Identifier: BSL-1.0

// Messages between two ranks, and communicators of some of the ranks, over MPI.

#include "transport/mpi_ranks.hpp"

#include <tutti/tutti.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collective/messages.hpp"

using namespace test;
using namespace std::chrono_literals;

namespace {

using mpi_communicator = tutti::communicator<tutti::mpi>;

/// What each of the first `ranks` ranks came to, told to all ranks of the job.
template <class F>
std::vector<outcome> outcomes_on_mpi(int ranks, const F& f) {
  struct report {
    std::array<char, 16> kind;
    int peer;
    std::array<char, 1000> text;
  };
  const outcome here = outcome_of([&] { run_mpi_on(ranks, [&](mpi_communicator& comm) { f(comm); }); });
  report mine{};
  const auto put = [](auto& to, const std::string& from) {
    std::memcpy(to.data(), from.data(), std::min(from.size(), to.size() - 1));
  };
  put(mine.kind, here.kind);
  mine.peer = here.peer;
  put(mine.text, here.text);
  std::vector<report> all(static_cast<std::size_t>(world_size()));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<outcome> outcomes;
  for (int r = 0; r < ranks; ++r) {
    const report& each = all[static_cast<std::size_t>(r)];
    outcomes.push_back({each.kind.data(), each.text.data(), each.peer});
  }
  return outcomes;
}

}  // namespace

TEST_CASE("messages over MPI") {
  const deadline limit(100s);
  using checks = message_checks<mpi_communicator>;
  checks{[](int ranks, const checks::work& f) { return outcomes_on_mpi(ranks, f); }}.everything();
}

TEST_CASE("large messages both ways round while some ranks are late") {
  const deadline limit(60s);
  const auto ended = outcomes_on_mpi(3, [](mpi_communicator& comm) {
    const int right = (comm.rank() + 1) % 3;
    const int left = (comm.rank() + 2) % 3;
    const std::vector<int> out(100'000, comm.rank());
    std::vector<int> in(out.size());
    const auto begin = std::chrono::steady_clock::now();
    while (comm.rank() != 0 && std::chrono::steady_clock::now() - begin < 300ms) sched_yield();
    tutti::sendrecv(comm, right, out, left, in);
    if (in.back() != left) throw std::logic_error("a wrong message from the left");
    tutti::sendrecv(comm, left, out, right, in);
    if (in.back() != right) throw std::logic_error("a wrong message from the right");
  });
  for (const outcome& each : ended) CHECK_MESSAGE(each.kind == "none", each.text);
}

TEST_CASE("a small message that nobody receives does not keep the ranks from ending") {
  const deadline limit(60s);
  for (const std::size_t bytes : {8U, 10'000U}) {
    const auto ended = outcomes_on_mpi(2, [&](mpi_communicator& comm) {
      if (comm.rank() == 0) tutti::send(comm, 1, std::vector<char>(bytes));
    });
    for (const outcome& each : ended) CHECK_MESSAGE(each.kind == "none", each.text);
  }
}

TEST_CASE("who waits for a rank that has left a communicator learns of it") {
  const deadline limit(60s);
  const auto ended = outcomes_on_mpi(2, [](mpi_communicator& comm) {
    auto both = comm.split(0, -comm.rank());
    if (comm.rank() == 0) tutti::barrier(both);
  });
  CHECK(ended[0].kind == "peer_failed");
  CHECK(ended[0].text.find("ranks of a communicator of ranks 1, 0") != std::string::npos);
}

TEST_CASE("rows and columns over MPI, and a mismatch in one of them") {
  const deadline limit(60s);
  const auto ended = outcomes_on_mpi(4, [](mpi_communicator& comm) {
    auto row = comm.split(comm.rank() / 2);
    auto column = comm.split(comm.rank() % 2);
    std::vector<int> along(5000, comm.rank());
    std::vector<int> across(5000, comm.rank());
    auto first = tutti::iallreduce(row, along, std::plus{});
    auto second = tutti::iallreduce(column, across, std::plus{});
    second.wait();
    first.wait();
    if (along[4999] != 4 * (comm.rank() / 2) + 1 || across[4999] != 2 * (comm.rank() % 2) + 2)
      throw std::logic_error("a wrong sum");
    const outcome o = outcome_of([&] {
      std::vector<int> values(comm.rank() == 3 ? 7 : 8);
      tutti::allreduce(row, values, std::plus{});
      tutti::barrier(row);
    });
    if (o.kind != (comm.rank() < 2 ? "none" : "mismatch")) throw std::logic_error(o.kind + ": " + o.text);
    tutti::barrier(comm);
  });
  for (const outcome& each : ended) CHECK_MESSAGE(each.kind == "none", each.text);
}
