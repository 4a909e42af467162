// SPDX-License-Identifier: BSL-1.0

// Communicators of some of the ranks, and duplicates, of processes: what is different where a rank can die, and where
// all that a communicator is made of lies in memory that they share.

#define TUTTI_FAULT_POINTS
#include "transport/processes_run.hpp"

#include "deadline.hpp"
#include "on_processors.hpp"

#include <tutti/core/fault_point.hpp>
#include <tutti/transport/processes/piece_pool.hpp>

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace test;
namespace fault = tutti::fault;

namespace {

using comm_type = process_communicator;

void expect(bool right, const char* what) {
  if (!right) throw std::logic_error(what);
}

int sum(comm_type& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}
int sum_large(comm_type& comm, int value) {
  std::vector<int> values(30'000, value);
  tutti::allreduce<tutti::ring>(comm, values, std::plus{});
  expect(values.front() == values.back(), "the ends of a large sum");
  return values[0];
}

struct memory_use {
  std::uint64_t addresses;
  std::int64_t bytes;
};
memory_use memory_of(comm_type& comm) {
  tutti::detail::segment& s = static_cast<tutti::detail::shared_heap&>(comm.transport().memory()).memory();
  struct stat file {};
  fstat(s.descriptor(), &file);
  return {s.taken(), file.st_blocks * 512};
}

/// A duplicate that can be ended when one likes.
struct owned {
  explicit owned(comm_type& parent) : comm(parent.dup()) {}
  comm_type comm;
};

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  std::abort();
}

}  // namespace

TEST_CASE("pieces are given back and taken again, by size") {
  auto memory = tutti::detail::segment::create(std::size_t{1} << 30);
  tutti::detail::piece_pool pool;
  std::set<std::uint64_t> first;
  const std::array<std::size_t, 9> sizes{1, 128, 129, 500, 4096, 5000, 100'000, 1'000'000, (std::size_t{1} << 20) + 1};
  for (const std::size_t size : sizes) {
    const std::uint64_t before = memory.taken();
    const std::uint64_t piece = pool.take(memory, size, "a piece");
    CHECK(piece % tutti::detail::piece_pool::alignment == 0);
    CHECK(memory.taken() - piece >= size);
    CHECK(memory.taken() - before <= size + size / 4 + 4 * tutti::detail::piece_pool::alignment);
    CHECK(first.insert(piece).second);
  }
  for (const std::uint64_t piece : first) pool.give_back(memory, piece);
  const std::uint64_t taken = memory.taken();
  for (int round = 0; round < 3; ++round) {
    std::set<std::uint64_t> again;
    for (const std::size_t size : sizes) again.insert(pool.take(memory, size, "a piece"));
    CHECK(again == first);
    for (const std::uint64_t piece : again) pool.give_back(memory, piece);
  }
  CHECK(memory.taken() == taken);
  CHECK_THROWS_WITH_AS(pool.take(memory, std::size_t{1} << 40, "far too much"),
                       doctest::Contains("not enough shared memory for far too much"), tutti::resource_error);
}

TEST_CASE("parts of processes: colours, keys, parts of parts, and pending collectives on several at once") {
  const alarm_limit limit(60);
  const auto ended = outcomes_of_processes(6, [](comm_type& comm, rank_report&) {
    const int rank = comm.rank();
    auto row = comm.split(rank / 3, -rank);
    auto column = comm.split(std::optional(rank % 3));
    auto some = rank == 4 ? comm.split(tutti::undefined) : comm.split(std::optional(7), rank);
    expect(row.size() == 3 && row.rank() == 2 - rank % 3, "place in the row");
    expect(column && column->size() == 2 && column->rank() == rank / 3, "place in the column");
    expect(some.has_value() == (rank != 4) && (!some || sum(*some, rank) == 11), "all but one");
    auto pair = row.split(row.rank() == 0 ? 0 : 1);
    expect(sum_large(pair, rank) == (rank % 3 == 2 ? rank : 2 * rank + (rank % 3 == 0 ? 1 : -1)), "a part of a part");
    // What is allocated from a part is the same memory.
    auto shared = row.allocate<int>(20'000);
    for (int round = 0; round < 3; ++round) {
      for (int& value : shared) value = 1;
      std::vector<int> in_column(20'000, 10);
      std::vector<int> in_whole(20'000, 100);
      auto a = tutti::iallreduce<tutti::ring>(row, shared, std::plus{});
      auto b = tutti::iallreduce<tutti::ring>(*column, in_column, std::plus{});
      auto c = tutti::iallreduce<tutti::ring>(comm, in_whole, std::plus{});
      for (int i = 0; i < 3; ++i) {
        const int which = (i + rank + round) % 3;
        if (which == 0) a.wait();
        if (which == 1) b.wait();
        if (which == 2) c.wait();
      }
      expect(shared[19'999] == 3 && in_column.back() == 20 && in_whole.back() == 600, "sums");
    }
    // Ends go while others still read what was sent.
    auto copy = std::make_unique<owned>(comm);
    auto later = std::make_unique<owned>(copy->comm);
    copy.reset();
    std::vector<int> told(1000, rank);
    tutti::broadcast<tutti::flat>(later->comm, told, 0);
    expect(told.back() == 0, "what was told");
    if (rank == 0) later.reset();
    tutti::barrier(comm);
    if (rank != 0) expect(outcome_of([&] { tutti::barrier(later->comm); }).kind == "peer_failed", "rank 0 has left");
  });
  CHECK(ended.run == outcome{});
  for (const outcome& o : ended.of) CHECK(o == outcome{});
}

TEST_CASE("a mismatch or an abort in a part of processes fails it alone") {
  const alarm_limit limit(60);
  const shared_with_children<rank_report> ends(5);
  const auto ended = outcomes_of_processes(5, [&](comm_type& comm, rank_report&) {
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    const outcome o = outcome_of([&] {
      std::vector<int> values(comm.rank() == 2 ? 4 : 5);
      if (comm.rank() == 3) part.abort("enough");
      for (;;) tutti::allreduce<tutti::ring>(part, values, std::plus{});
    });
    expect(sum(comm, 1) == 5, "the whole");
    auto again = comm.split(comm.rank() % 2);
    expect(sum(again, 1) == (comm.rank() % 2 == 0 ? 3 : 2), "a part of the same ranks");
    ends[comm.rank()].write(o);
  });
  CHECK(ended.run == outcome{});
  for (const int rank : {0, 2, 4}) {
    const std::string text = ends[rank].read().text;
    CHECK_MESSAGE(contains(text, "rank 1 called allreduce of 4 x int"), text);
    CHECK_MESSAGE(contains(text, "(ranks of a communicator of ranks 4, 2, 0)"), text);
  }
  for (const int rank : {1, 3}) {
    const std::string text = ends[rank].read().text;
    CHECK(text == "rank 0 aborted: enough (ranks of a communicator of ranks 3, 1): peer failed");
  }
}

TEST_CASE("a rank that is killed, or throws, fails the parts that it is in, whoever waits there, and no other part") {
  const alarm_limit limit(60);
  for (const bool killed : {true, false}) {
    CAPTURE(killed);
    const auto work = [killed](comm_type& comm, rank_report& mine) {
      const int rank = comm.rank();
      auto part = comm.split(rank / 3);                               // 0 1 2, 3 4
      auto pair = comm.split(rank == 0 || rank == 2 ? 0 : 1, -rank);  // 2 0, 4 3 1
      auto copy = part.dup();
      tutti::barrier(comm);
      if (rank == 2) {
        tutti::barrier(part);
        if (killed) die();
        throw std::runtime_error("boom");
      }
      if (rank > 2) {
        for (int i = 0; i < 200; ++i) expect(sum_large(part, 1) == 2, "the part without it");
        mine.steps.store(1);
        return;
      }
      tutti::barrier(part);
      for (;;) tutti::barrier(rank == 0 ? pair : copy);
    };
    const auto check = [killed](const process_outcomes& ended, bool launched) {
      const std::string how = killed ? ") has ended without a word" : " failed: boom";
      CHECK(ended.on(0).kind == "peer_failed");
      CHECK(ended.on(0).peer == 0);
      CHECK_MESSAGE(contains(ended.on(0).text, how + " (ranks of a communicator of ranks 2, 0)"), ended.on(0).text);
      CHECK(ended.on(1).kind == "peer_failed");
      CHECK(ended.on(1).peer == 2);
      CHECK_MESSAGE(contains(ended.on(1).text, how + " (ranks of a communicator of ranks 0-2)"), ended.on(1).text);
      for (const int rank : {3, 4}) {
        CHECK(ended.steps_of(rank) == 1);
        if (launched) {  // in the end it hears of it
          CHECK(ended.on(rank).kind == "peer_failed");
          CHECK(ended.on(rank).peer == 2);
        } else {
          CHECK(ended.on(rank) == outcome{});
        }
      }
    };
    const auto ended = outcomes_of_processes(5, work);
    check(ended, false);
    CHECK(ended.run.kind == "peer_failed");
    CHECK(ended.run.peer == 2);
    CHECK_MESSAGE(contains(ended.run.text, killed ? "rank 2 was killed by signal 9" : "rank 2 failed: boom"),
                  ended.run.text);
    // Where nothing is above the ranks they notice it themselves.
    if (killed)
      check(outcomes_of_launched(5, "split " + std::to_string(getpid()), std::chrono::seconds(20), work), true);
  }
}

TEST_CASE("a rank that is killed on its way into a part or out of it is named by all others") {
  const alarm_limit limit(120);
  int fired = 0;
  for (const std::string_view point :
       {"group.subgroup", "pool.take", "pool.taken", "pool.listed", "group.show", "group.shown", "group.entered",
        "group.depart", "group.departed", "pool.given_back"}) {
    for (const auto what : {fault::action::kill, fault::action::raise}) {
      if (what == fault::action::raise &&
          (point == "pool.listed" || point == "pool.given_back" || point.starts_with("group.depart")))
        continue;  // where nothing may be thrown
      CAPTURE(point);
      fault::arm({.name = point, .nth = 3, .what = what, .rank = 1});
      fault::share_with_children();
      const auto ended = outcomes_of_processes(3, [](comm_type& comm, rank_report&) {
        for (int i = 0; i < 20; ++i) {
          auto part = comm.dup();
          auto smaller = part.split(0);
          expect(sum(smaller, 1) == 3, "sum");
        }
        tutti::barrier(comm);
      });
      if (!fault::fired()) continue;  // it was never the first
      ++fired;
      CHECK(ended.run.kind == "peer_failed");
      CHECK(ended.run.peer == 1);
      for (const int rank : {0, 2}) {
        CHECK_MESSAGE(ended.on(rank).kind == "peer_failed", ended.on(rank).text);
        CHECK_MESSAGE(ended.on(rank).peer == 1, ended.on(rank).text);
      }
    }
  }
  fault::share_no_more();
  fault::disarm();
  CHECK(fired >= 8);
}

TEST_CASE("a child of a rank has no part in its communicators, and takes nothing away when it ends them") {
  const alarm_limit limit(60);
  const auto ended = outcomes_of_processes(2, [](comm_type& comm, rank_report&) {
    auto part = std::make_unique<owned>(comm);
    expect(sum(part->comm, 1) == 2, "before");
    const pid_t child = fork();
    if (child == 0) {
      const bool refused = outcome_of([&] { tutti::barrier(part->comm); }).kind == "usage_error" &&
                           outcome_of([&] { const auto copy = part->comm.dup(); }).kind == "usage_error";
      part.reset();
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, "the child was refused");
    expect(sum(part->comm, 1) == 2, "after");
  });
  CHECK(ended.run == outcome{});
}

TEST_CASE("ten thousand divisions of processes take no more memory of the segment, nor descriptors") {
  const alarm_limit limit(120);
  const on_processors one(1);  // each waits for the other without spinning, however busy the machine is
  // Alone, a rank needs not wait for anybody.
  for (const auto& [ranks, times] : {std::pair(1, 10'000), std::pair(2, sanitized ? 1'000 : 2'000)}) {
    const auto ended = outcomes_of_processes(ranks, [count = times](comm_type& comm, rank_report&) {
      const auto divide = [&](int i) {
        auto part = i % 3 == 0 ? comm.split(comm.rank()) : comm.dup();
        if (i % 10 == 0) sum_large(part, 1);
        if (i % 100 == 0) {
          std::vector<int> values(2000, 1);
          tutti::iallreduce<tutti::ring>(part, values, std::plus{}).wait();
        }
      };
      // How many pieces are out at once depends on who is ahead: what is needed for that is there after a while.
      memory_use before{};
      int descriptors = 0;
      for (int i = 0; i < count; ++i) {
        if (i == 600) {
          tutti::barrier(comm);
          before = memory_of(comm);
          comm.transport().group().look_for_dead();  // by a descriptor, opened when a rank first waits for long
          descriptors = open_descriptors();
          tutti::barrier(comm);
        }
        divide(i);
      }
      tutti::barrier(comm);
      const memory_use after = memory_of(comm);
      // No more than what one part more of these takes.
      expect(after.addresses - before.addresses < 2'000'000 && after.bytes - before.bytes < 2'000'000, "memory");
      expect(open_descriptors() == descriptors, "descriptors");
    });
    CHECK(ended.run == outcome{});
  }
}
