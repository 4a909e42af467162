// SPDX-License-Identifier: BSL-1.0

// Ranks that leave communicators early: the others are told, and nothing is left behind.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/outcome.hpp"
#include "counted_new.hpp"
#include "deadline.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using communicator = tutti::communicator<tutti::threads>;

/// A duplicate that can be ended when one likes.
template <class Comm>
struct owned {
  explicit owned(Comm& parent) : comm(parent.dup()) {}
  Comm comm;
};

void check_missed(const outcome& end, int peer) {
  CHECK(end.kind == "peer_failed");
  CHECK(end.peer == peer);
  CHECK_MESSAGE(contains(end.text, "rank " + std::to_string(peer) + " left while rank "), end.text);
  CHECK_MESSAGE(contains(end.text, " of barrier by "), end.text);
}

}  // namespace

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
