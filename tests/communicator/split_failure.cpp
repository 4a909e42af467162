// SPDX-License-Identifier: BSL-1.0

// Ranks that fail while communicators are made, or leave them early: the others are told, and nothing is left behind.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/interrupted.hpp"
#include "communicator/outcome.hpp"
#include "counted_new.hpp"
#include "deadline.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using communicator = tutti::communicator<tutti::threads>;
using interrupted_communicator = tutti::communicator<interrupted<tutti::threads>>;
static_assert(tutti::splitting_transport<interrupted<tutti::threads>>);

/// A duplicate that can be ended when one likes.
template <class Comm>
struct owned {
  explicit owned(Comm& parent) : comm(parent.dup()) {}
  Comm comm;
};

template <class Comm>
int sum(Comm& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}

void check_missed(const outcome& end, int peer) {
  CHECK(end.kind == "peer_failed");
  CHECK(end.peer == peer);
  CHECK_MESSAGE(contains(end.text, "rank " + std::to_string(peer) + " left while rank "), end.text);
  CHECK_MESSAGE(contains(end.text, " of barrier by "), end.text);
}

}  // namespace

TEST_CASE("a rank that fails at the end of a division is missed by the others, and leaves nothing behind") {
  const deadline limit{60s};
  // The others wait in what they have made, or have left it by then.
  for (const bool others_wait : {true, false}) {
    CAPTURE(others_wait);
    const long before = live_allocations.load();
    {
      std::vector<outcome> ends(3);
      std::latch divided(1);
      std::latch told(1);
      std::atomic<int> whole{0};
      tutti::detail::ranks<interrupted<tutti::threads>> all(3);
      tutti::detail::run_ranks(all, [&](interrupted_communicator& comm) {
        auto pair = comm.split(comm.rank() / 2);
        auto& mine = ends[static_cast<std::size_t>(comm.rank())];
        if (comm.rank() == 0) {
          auto part = std::make_unique<owned<interrupted_communicator>>(pair);
          if (!others_wait) part.reset();
          divided.count_down();
          if (others_wait) mine = outcome_of([&] { tutti::barrier(part->comm); });
          told.count_down();
        } else if (comm.rank() == 1) {
          before_the_end = [&] {
            divided.wait();
            throw std::runtime_error("no shoes");
          };
          mine = outcome_of([&] { const auto part = pair.dup(); });
          told.wait();
        }
        if (sum(comm, 1) == 3) ++whole;
      });
      CHECK(ends[1] == outcome{"other", "no shoes", -1});
      if (others_wait) check_missed(ends[0], 1);
      CHECK(whole == 3);
    }
    CHECK(live_allocations.load() == before);
  }
}

TEST_CASE("of a rank that leaves communicators by an exception that it catches the others hear soon") {
  const deadline limit{60s};
  for (const bool returns : {true, false}) {
    CAPTURE(returns);
    std::vector<outcome> in_child(3), in_parent(3);
    std::vector<std::chrono::nanoseconds> after(3);
    std::latch told(2);
    const auto run = outcome_of([&] {
      tutti::run(3, [&](communicator& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        try {
          auto parent = comm.dup();
          auto child = parent.split(0, -parent.rank());
          tutti::barrier(child);
          if (me == 1) throw std::runtime_error("no shoes");
          const auto begin = std::chrono::steady_clock::now();
          in_child[me] = outcome_of([&] { tutti::barrier(child); });
          in_parent[me] = outcome_of([&] { tutti::barrier(parent); });
          after[me] = std::chrono::steady_clock::now() - begin;
          told.count_down();
        } catch (const std::runtime_error&) {
          if (!returns) told.wait();  // it has something else to do
        }
      });
    });
    CHECK(run == outcome{});
    for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
      check_missed(in_child[rank], 1);
      check_missed(in_parent[rank], 1);
      CHECK(after[rank] < (sanitized ? 20s : 5s));
    }
  }
}

TEST_CASE("a communicator that goes by an exception after the run leaves nothing behind") {
  const long before = live_allocations.load();
  try {
    std::vector<std::unique_ptr<owned<communicator>>> kept(2);
    tutti::run(2, [&](communicator& comm) {
      kept[static_cast<std::size_t>(comm.rank())] = std::make_unique<owned<communicator>>(comm);
    });
    throw std::runtime_error("no shoes");
  } catch (const std::runtime_error&) {
  }
  CHECK(live_allocations.load() == before);
}

TEST_CASE("a rank that fails on a part, and is refused all memory to say why, fails it all the same") {
  if (!counting) return;
  const deadline limit{60s};
  std::vector<outcome> ends(2);
  tutti::run(2, [&](communicator& comm) {
    auto part = comm.dup();
    std::vector<int> values(1, 1);
    tutti::barrier(part);
    made_by_test = part.rank() == 0;
    const outcome end = outcome_of([&] {
      tutti::allreduce<tutti::recursive_doubling>(part, values, tutti::commutative([&](int a, int b) {
                                                    if (part.rank() == 0) return a + b;
                                                    elsewhere.end = static_cast<std::size_t>(-1);
                                                    throw std::bad_alloc();
                                                  }));
      tutti::barrier(part);
    });
    if (part.rank() == 1) elsewhere.end = 0;
    made_by_test = false;
    ends[static_cast<std::size_t>(comm.rank())] = end;
    CHECK(sum(comm, 1) == 2);
  });
  CHECK(ends[0] == outcome{"peer_failed", "out of memory: peer failed", 1});
  CHECK(ends[1].kind == "other");
}
