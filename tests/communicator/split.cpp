// SPDX-License-Identifier: BSL-1.0

// Communicators of some of the ranks, and duplicates, of threads: as MPI_Comm_split and MPI_Comm_dup.

#include <tutti/collective/split.hpp>

#include <doctest/doctest.h>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "communicator/outcome.hpp"
#include "counted_new.hpp"
#include "deadline.hpp"
#include "on_processors.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using communicator = tutti::communicator<tutti::threads>;

/// What each rank says, and what must come of it: the ranks of this rank's communicator, none if it is in none.
struct choice {
  std::optional<int> color;
  int key;
};
std::vector<int> expected(const std::vector<choice>& said, int rank) {
  const auto& mine = said[static_cast<std::size_t>(rank)];
  std::vector<int> members;
  for (int other = 0; other < static_cast<int>(said.size()); ++other)
    if (mine.color && said[static_cast<std::size_t>(other)].color == mine.color) members.push_back(other);
  std::sort(members.begin(), members.end(), [&](int a, int b) {
    const int first = said[static_cast<std::size_t>(a)].key;
    const int second = said[static_cast<std::size_t>(b)].key;
    return first != second ? first < second : a < b;
  });
  return members;
}

/// The ranks of `whole` in a part of it, as the part's own collectives tell.
std::vector<int> members_of(const communicator& whole, communicator& part) {
  std::vector<int> members(static_cast<std::size_t>(part.size()));
  tutti::allgather<tutti::ring>(part, std::vector<int>{whole.rank()}, members);
  return members;
}

/// What the ranks find wrong.
class findings {
 public:
  void check(bool right, const char* what) {
    if (!right) wrong_.store(what);
  }
  void expect_none() const { CHECK(std::string(wrong_.load()) == ""); }

 private:
  std::atomic<const char*> wrong_{""};
};

/// A duplicate that can be ended when one likes.
struct owned {
  explicit owned(communicator& parent) : comm(parent.dup()) {}
  communicator comm;
};

int sum(communicator& comm, int value) {
  std::vector<int> values(1, value);
  tutti::allreduce<tutti::census>(comm, values, std::plus{});
  return values[0];
}
int sum_of_ranks(const communicator& comm) { return comm.size() * (comm.size() - 1) / 2; }

}  // namespace

TEST_CASE("ranks of one colour are together, by key and then by rank; the undefined are in none") {
  const deadline limit{60s};
  const std::optional<int> none = tutti::undefined;
  const std::vector<std::vector<choice>> cases{
      {{0, 0}},
      {{none, 0}},
      {{7, 1}, {7, 0}},
      {{INT_MAX, INT_MAX}, {INT_MAX, INT_MIN}, {0, 0}},
      {{1, 5}, {0, 5}, {1, 5}, {0, 5}, {1, 5}},                           // ties
      {{2, -1}, {none, 0}, {2, -3}, {none, 9}, {2, -2}, {4, 0}},          // the reverse, and some in none
      {{none, 0}, {none, 0}, {none, 0}},                                  // nobody
      {{3, 1}, {3, 0}, {3, 1}, {3, 0}, {3, -1}, {3, 1}, {3, 7}, {3, 0}},  // all, permuted
  };
  for (const auto& said : cases) {
    findings found;
    tutti::run(static_cast<int>(said.size()), [&](communicator& comm) {
      const auto& mine = said[static_cast<std::size_t>(comm.rank())];
      const std::vector<int> members = expected(said, comm.rank());
      // Both forms fit together.
      if (mine.color && comm.rank() % 2 == 0) {
        auto part = comm.split(*mine.color, mine.key);
        found.check(members_of(comm, part) == members, "members");
        found.check(members[static_cast<std::size_t>(part.rank())] == comm.rank(), "rank");
      } else {
        auto part = comm.split(mine.color, mine.key);
        found.check(part.has_value() == mine.color.has_value(), "is there");
        if (part) found.check(members_of(comm, *part) == members, "members of the other form");
      }
      found.check(sum(comm, 1) == comm.size(), "the whole goes on");
    });
    found.expect_none();
  }
}

TEST_CASE("a colour that is none is refused on the rank, before anything is sent") {
  tutti::run(3, [](communicator& comm) {
    if (comm.rank() == 1) {
      const auto bad = outcome_of([&] { const auto part = comm.split(-2, 5); });
      CHECK(bad == outcome{"usage_error",
                           "split on rank 1 of 3: the colour is -2, must be at least 0, or tutti::undefined: wrong use",
                           -1});
      CHECK(outcome_of([&] { const auto part = comm.split(std::optional(INT_MIN)); }).kind == "usage_error");
    }
    CHECK(comm.split(0).size() == 3);
  });
}

TEST_CASE("a duplicate has the same ranks and none of the messages") {
  findings found;
  tutti::run(5, [&](communicator& comm) {
    auto copy = comm.dup();
    found.check(copy.rank() == comm.rank() && copy.size() == comm.size(), "place");
    // Every rank begins the two in an order of its own.
    std::vector<int> here(1000, 1), there(1000, 100);
    if (comm.rank() % 2 == 0) {
      auto a = tutti::iallreduce<tutti::ring>(comm, here, std::plus{});
      auto b = tutti::iallreduce<tutti::ring>(copy, there, std::plus{});
      a.wait();
      b.wait();
    } else {
      auto b = tutti::iallreduce<tutti::ring>(copy, there, std::plus{});
      auto a = tutti::iallreduce<tutti::ring>(comm, here, std::plus{});
      a.wait();
      b.wait();
    }
    found.check(here == std::vector<int>(1000, 5) && there == std::vector<int>(1000, 500), "sums");
  });
  found.expect_none();
}

TEST_CASE("a rank that waits in one communicator advances what is pending on its others") {
  const deadline limit{60s};
  findings found;
  // Rows, columns, the whole, and a copy of the row: many rounds each, waited for in an order that goes round, so that
  // nobody gets anywhere unless all advance.
  tutti::run(9, [&](communicator& comm) {
    auto row = comm.split(comm.rank() / 3);
    auto column = comm.split(comm.rank() % 3);
    auto copy = row.dup();
    for (int round = 0; round < 4; ++round) {
      std::vector<int> in_row(3001, 1), in_column(3001, 10), in_whole(3001, 100), in_copy(3001, 1000);
      auto a = tutti::iallreduce<tutti::ring>(row, in_row, std::plus{});
      auto b = tutti::iallreduce<tutti::ring>(column, in_column, std::plus{});
      auto c = tutti::iallreduce<tutti::ring>(comm, in_whole, std::plus{});
      auto d = tutti::iallreduce<tutti::ring>(copy, in_copy, std::plus{});
      const auto wait_for = [&](int which) {
        if (which == 0) a.wait();
        if (which == 1) b.wait();
        if (which == 2) c.wait();
        if (which == 3) d.wait();
      };
      for (int i = 0; i < 4; ++i) wait_for((comm.rank() + i + round) % 4);
      found.check(in_row.back() == 3 && in_column.back() == 30 && in_whole.back() == 900 && in_copy.back() == 3000,
                  "sums");
    }
    // The same in a blocking call: half of the ranks come to it before the others can.
    std::vector<int> pending(3001, 1);
    auto begun = tutti::iallreduce<tutti::ring>(row, pending, std::plus{});
    if (comm.rank() % 2 == 0) begun.wait();
    tutti::barrier(comm);
    begun.wait();
    found.check(pending.back() == 3, "sum of the pending one");
  });
  found.expect_none();
}

TEST_CASE("parts are divided again, down to single ranks, and work at the same time") {
  const deadline limit{60s};
  findings found;
  tutti::run(8, [&](communicator& comm) {
    const auto halve = [&](auto& self, communicator& part, int first) -> void {
      found.check(sum(part, comm.rank()) == part.size() * first + sum_of_ranks(part), "sum");
      // Disjoint parts do different things, and different numbers of them.
      for (int i = 0; i < first % 5; ++i) tutti::barrier(part);
      if (part.size() == 1) return;
      const int half = part.size() / 2;
      auto smaller = part.split(part.rank() / half);
      self(self, smaller, first + part.rank() / half * half);
      found.check(sum(part, 1) == part.size(), "the parent goes on");
    };
    auto all = comm.dup();
    halve(halve, all, 0);
  });
  found.expect_none();
}

TEST_CASE("every collective works in a part whose ranks are in another order") {
  const deadline limit{60s};
  findings found;
  tutti::run(7, [&](communicator& comm) {
    auto part = comm.split(comm.rank() % 2, -comm.rank());
    const int p = part.size();
    const auto ranks = static_cast<std::size_t>(p);
    const std::vector<int> members = members_of(comm, part);
    for (const std::size_t n : {std::size_t{1}, std::size_t{300}, std::size_t{40'000}}) {
      std::vector<int> told(n, part.rank());
      tutti::broadcast<tutti::binomial>(part, told, p - 1);
      found.check(told.front() == p - 1 && told.back() == p - 1, "broadcast");
      std::vector<int> block(n), all(n * ranks);
      for (int r = 0; r < p; ++r) std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(n) * r, n, r);
      tutti::scatter<tutti::binomial>(part, all, block, 0);
      found.check(block.back() == part.rank(), "scatter");
      std::vector<int> gathered(part.rank() == 0 ? n * ranks : 0);
      tutti::gather<tutti::binomial>(part, block, gathered, 0);
      found.check(part.rank() != 0 || gathered == all, "gather");
      std::vector<int> from_each(n * ranks, part.rank());
      tutti::alltoall<tutti::flat>(part, from_each);
      found.check(from_each == all, "alltoall");
      std::vector<int> values(n, part.rank());
      tutti::reduce<tutti::binomial>(part, values, std::plus{}, 0);
      found.check(part.rank() != 0 || values.back() == sum_of_ranks(part), "reduce");
      std::vector<int> folded(n);
      tutti::reduce_scatter<tutti::ring>(part, from_each, folded, std::plus{});
      found.check(folded.back() == p * part.rank(), "reduce_scatter");
      std::vector<int> prefix(n, 1);
      tutti::scan<tutti::recursive_doubling>(part, prefix, std::plus{});
      found.check(prefix.back() == part.rank() + 1, "scan");
      std::vector<int> values_of_all(n, part.rank());
      tutti::allreduce<tutti::two_tree>(part, values_of_all, std::plus{});
      found.check(values_of_all.back() == sum_of_ranks(part), "allreduce");
    }
    found.check(members.front() > members.back(), "order");
  });
  found.expect_none();
}

TEST_CASE("a mismatch in a part fails the part, for all its ranks, and nothing else") {
  const deadline limit{60s};
  std::vector<outcome> ends(6);
  findings found;
  const auto run = outcome_of([&] {
    tutti::run(6, [&](communicator& comm) {
      auto copy = comm.dup();
      auto part = copy.split(comm.rank() % 2, -comm.rank());
      if (comm.rank() % 2 == 1) {
        ends[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
          std::vector<int> values(comm.rank() == 3 ? 4 : 5);
          for (;;) tutti::allreduce<tutti::ring>(part, values, std::plus{});
        });
        found.check(outcome_of([&] { tutti::barrier(part); }) == ends[static_cast<std::size_t>(comm.rank())], "stays");
        found.check(outcome_of([&] { const auto made = part.dup(); }).kind == "mismatch", "is not divided");
      } else {
        found.check(sum(part, 1) == 3, "the other part");
      }
      found.check(sum(copy, 1) == 6, "the parent");
      found.check(sum(comm, 1) == 6, "the whole");
      auto again = copy.split(comm.rank() % 2);
      found.check(sum(again, 1) == 3, "a part of the same ranks");
    });
  });
  CHECK(run == outcome{});
  found.expect_none();
  CHECK(ends[1].kind == "mismatch");
  CHECK_MESSAGE(contains(ends[1].text, "allreduce of 4 x int"), ends[1].text);
  CHECK_MESSAGE(contains(ends[1].text, "rank 1 called"), ends[1].text);  // which is rank 3 of the whole
  CHECK_MESSAGE(contains(ends[1].text, " (ranks of a communicator of ranks 5, 3, 1)"), ends[1].text);
  CHECK(ends[3] == ends[1]);
  CHECK(ends[5] == ends[1]);
}

TEST_CASE("split, dup and allgather do not fit together") {
  const deadline limit{60s};
  for (const bool gathers : {false, true}) {
    const auto ended = outcomes_of_run(2, [&](communicator& comm) {
      if (comm.rank() == 0) {
        const auto part = comm.split(3, 1);
      } else if (gathers) {
        std::vector<int> all(6);
        tutti::allgather<tutti::bruck>(comm, all);
      } else {
        const auto copy = comm.dup();
      }
    });
    CHECK(ended.of[0].kind == "mismatch");
    CHECK(ended.of[1] == ended.of[0]);
    CHECK_MESSAGE(contains(ended.run.text, "rank 0 called split by bruck, call 1 at "), ended.run.text);
    CHECK_MESSAGE(contains(ended.run.text, gathers ? "rank 1 called allgather of" : "rank 1 called dup by bruck"),
                  ended.run.text);
  }
}

TEST_CASE("a part begins with the timeout of its parent; where it expires it fails alone") {
  const deadline limit{60s};
  std::vector<outcome> ends(3);
  findings found;
  std::latch over(1);
  tutti::run(3, [&](communicator& comm) {
    comm.timeout(100ms);
    auto part = comm.split(comm.rank() / 2);
    comm.timeout(0ms);
    auto longer = comm.split(comm.rank() / 2);
    if (comm.rank() == 0) {
      ends[0] = outcome_of([&] { tutti::barrier(part); });
      over.count_down();
    } else if (comm.rank() == 1) {
      over.wait();
      ends[1] = outcome_of([&] { tutti::barrier(part); });
    }
    tutti::barrier(longer);
    found.check(sum(comm, 1) == 3, "the whole");
  });
  found.expect_none();
  CHECK(ends[0].kind == "timed_out");
  CHECK(ends[0].peer == 1);
  CHECK_MESSAGE(contains(ends[0].text, "rank 1 was late: rank 0 waited 10"), ends[0].text);
  CHECK_MESSAGE(contains(ends[0].text, " (ranks of a communicator of ranks 0, 1)"), ends[0].text);
  CHECK(ends[1] == ends[0]);
}

TEST_CASE("a rank aborts a part, which fails alone; or the whole, and then the parts that it is in") {
  const deadline limit{60s};
  for (const bool whole : {false, true}) {
    std::vector<outcome> ends(6);
    findings found;
    std::latch come(6);
    std::latch over(2);
    const auto run = outcome_of([&] {
      tutti::run(6, [&](communicator& comm) {
        auto part = comm.split(comm.rank() / 3);
        auto& mine = ends[static_cast<std::size_t>(comm.rank())];
        come.arrive_and_wait();
        if (comm.rank() == 4) {
          (whole ? comm : part).abort("enough");
          mine = outcome_of([&] { tutti::barrier(part); });
        } else if (comm.rank() > 2) {
          mine = outcome_of([&] { tutti::barrier(part); });
          over.count_down();
        } else {
          over.wait();
          found.check(sum(part, 1) == 3, "the other part goes on");
        }
        if (!whole) found.check(sum(comm, 1) == 6, "the whole goes on");
      });
    });
    found.expect_none();
    const std::string text = "rank 1 aborted: enough (ranks of a communicator of ranks 3-5): peer failed";
    for (const int rank : {3, 4, 5}) CHECK(ends[static_cast<std::size_t>(rank)] == outcome{"peer_failed", text, 1});
    CHECK(run == outcome{});
  }
}

TEST_CASE("a rank whose function throws fails the parts that it is in, with its reason, and no other part") {
  const deadline limit{60s};
  std::vector<outcome> ends(5);
  findings found;
  std::latch come(5);
  std::latch over(2);
  const auto run = outcome_of([&] {
    tutti::run(5, [&](communicator& comm) {
      // Two communicators have the rank that throws; its own ends are destroyed on the way out.
      auto part = comm.split(comm.rank() / 3);
      auto pair = comm.split(comm.rank() == 0 || comm.rank() == 2 ? 1 : 0, -comm.rank());
      auto& mine = ends[static_cast<std::size_t>(comm.rank())];
      come.arrive_and_wait();
      if (comm.rank() == 2) throw std::runtime_error("boom");
      if (comm.rank() < 2) {
        mine = outcome_of([&] {
          for (;;) tutti::barrier(comm.rank() == 0 ? pair : part);
        });
        over.count_down();
        return;
      }
      over.wait();
      for (int i = 0; i < 100; ++i) found.check(sum(part, 1) == 2, "the part without it goes on");
    });
  });
  found.expect_none();
  CHECK(run == outcome{"other", "boom", -1});
  CHECK(ends[0] ==
        outcome{"peer_failed", "rank 0 failed: boom (ranks of a communicator of ranks 2, 0): peer failed", 0});
  CHECK(ends[1] ==
        outcome{"peer_failed", "rank 2 failed: boom (ranks of a communicator of ranks 0-2): peer failed", 2});
}

TEST_CASE("a rank that goes on after an exception has left the parts that ended meanwhile") {
  const deadline limit{60s};
  std::vector<outcome> ends(3);
  findings found;
  const auto run = outcome_of([&] {
    tutti::run(3, [&](communicator& comm) {
      try {
        auto part = comm.dup();
        if (comm.rank() == 1) throw std::runtime_error("which does not matter");
        ends[static_cast<std::size_t>(comm.rank())] = outcome_of([&] { tutti::barrier(part); });
      } catch (const std::runtime_error&) {
      }
      found.check(sum(comm, 1) == 3, "the whole goes on");
    });
  });
  CHECK(run == outcome{});
  found.expect_none();
  for (const int rank : {0, 2}) {
    const outcome& end = ends[static_cast<std::size_t>(rank)];
    CHECK(end.kind == "peer_failed");
    CHECK_MESSAGE(contains(end.text, "rank 1 left while rank "), end.text);
    CHECK_MESSAGE(contains(end.text, " (ranks of a communicator of ranks 0-2)"), end.text);
  }
}

TEST_CASE("ends go in any order: parents first, and while others still read what was sent") {
  const deadline limit{60s};
  findings found;
  std::latch gone(1);
  tutti::run(3, [&](communicator& comm) {
    auto parent = std::make_unique<owned>(comm);
    auto child = std::make_unique<owned>(parent->comm);
    auto grandchild = std::make_unique<owned>(child->comm);
    child.reset();
    found.check(sum(grandchild->comm, 1) == 3, "after its parent");
    // The root's copies of what nobody has read yet, and messages in slots.
    std::vector<int> large(1000, comm.rank()), small(1, comm.rank());
    if (comm.rank() == 0) {
      tutti::broadcast<tutti::flat>(grandchild->comm, large, 0);
      tutti::broadcast<tutti::flat>(grandchild->comm, small, 0);
      grandchild.reset();
      parent.reset();
      gone.count_down();
    } else {
      gone.wait();
      tutti::broadcast<tutti::flat>(grandchild->comm, large, 0);
      tutti::broadcast<tutti::flat>(grandchild->comm, small, 0);
      found.check(large == std::vector<int>(1000, 0) && small[0] == 0, "what was sent");
      const auto late = outcome_of([&] { tutti::barrier(grandchild->comm); });
      found.check(late.kind == "peer_failed", "it has left");
    }
    found.check(sum(comm, 1) == 3, "the whole");
  });
  found.expect_none();
}

TEST_CASE("a part may outlive the run") {
  std::vector<std::unique_ptr<owned>> ends(3);
  tutti::run(3, [&](communicator& comm) {
    auto& mine = ends[static_cast<std::size_t>(comm.rank())];
    mine = std::make_unique<owned>(comm);
    tutti::barrier(mine->comm);
  });
  std::swap(ends[0], ends[2]);
  ends.clear();
  ends.resize(2);
  // Where they have not made the same calls on it, the run says so.
  const auto differ = outcome_of([&] {
    tutti::run(2, [&](communicator& comm) {
      auto& mine = ends[static_cast<std::size_t>(comm.rank())];
      mine = std::make_unique<owned>(comm);
      std::vector<int> value(1);
      if (comm.rank() == 0) tutti::broadcast<tutti::flat>(mine->comm, value, 0);
    });
  });
  CHECK(differ.kind == "mismatch");
  CHECK_MESSAGE(contains(differ.text, "rank 1 called nothing that fits (ranks of a communicator of ranks 0, 1)"),
                differ.text);
}

TEST_CASE("a rank that is refused memory for its end is missed by the others, who then leave nothing behind") {
  if (!counting) return;
  const deadline limit{60s};
  // One allocation after the other is refused to rank 1, until none is left to refuse.
  bool refused_one = true;
  for (std::size_t number = 1; refused_one; ++number) {
    std::vector<outcome> ends(2);
    tutti::run(2, [&](communicator& comm) {
      for (int warm = 0; warm < 2; ++warm) const auto part = comm.dup();
      auto& mine = ends[static_cast<std::size_t>(comm.rank())];
      if (comm.rank() == 1) refused = number;
      mine = outcome_of([&] {
        auto part = comm.dup();
        refused = 0;
        tutti::barrier(part);
      });
      refused = 0;
      const bool whole_failed = outcome_of([&] { comm.transport().check(); }).kind != "none";
      if (!whole_failed) CHECK(outcome_of([&] { tutti::barrier(comm); }).kind != "mismatch");
    });
    refused_one = ends[1].kind != "none";
    if (refused_one) CHECK(ends[1].kind == "resource_error");
    CHECK(ends[0].kind == (refused_one ? "peer_failed" : "none"));
    REQUIRE(number < 100);
  }
}

TEST_CASE("ten thousand divisions leave nothing behind") {
  const deadline limit{120s};
  const on_processors one(1);  // each waits for the other without spinning, however busy the machine is
  // Alone, a rank needs not wait for anybody.
  for (const auto& [ranks, times] : {std::pair(1, 10'000), std::pair(2, sanitized ? 600 : 1'500)}) {
    std::atomic<long> before{0};
    std::atomic<long> after{0};
    tutti::run(ranks, [&, count = times](communicator& comm) {
      const auto divide = [&](int i) {
        auto part = i % 3 == 0 ? comm.split(comm.rank()) : comm.dup();
        std::vector<int> values(2000, 1);
        if (i % 10 == 0) tutti::allreduce<tutti::ring>(part, values, std::plus{});
        if (i % 100 == 0) tutti::iallreduce<tutti::ring>(part, values, std::plus{}).wait();
      };
      const auto live_after = [&](std::atomic<long>& live) {
        tutti::barrier(comm);
        if (comm.rank() == 0) live = live_allocations.load();
        tutti::barrier(comm);
      };
      for (int i = 0; i < count; ++i) {
        if (i == 300) live_after(before);
        divide(i);
      }
      live_after(after);
      CHECK(comm.transport().next_group() == count + 1);
    });
    CHECK(before.load() == after.load());
  }
}
