// SPDX-License-Identifier: BSL-1.0

// Communicators of some of the ranks over TCP: what they compute, what fails with them and what does not, and that
// nothing of them is left.

#include <doctest/doctest.h>
#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <malloc.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "descriptors.hpp"
#include "transport/tcp_data.hpp"
#include "transport/tcp_job.hpp"

namespace {

using namespace test;
using namespace std::chrono_literals;
using comm_type = tcp_communicator;
using tutti::detail::tcp_lane_id;

static_assert(tutti::splitting_transport<tutti::tcp>);

/// The sum of `mine` over all ranks.
int sum(comm_type& comm, int mine, std::size_t count = 1) {
  std::vector<int> values(count, mine);
  tutti::allreduce(comm, values, std::plus{});
  return values.back();
}
int squares(int from, int step, int to) {
  int all = 0;
  for (int i = from; i < to; i += step) all += i * i;
  return all;
}
/// `work(comm)` on each rank.
std::vector<outcome> on_ranks(int ranks, const std::function<void(comm_type&)>& work) {
  return outcomes_on_threads(ranks, work);
}
void check_all(const std::vector<outcome>& of, const outcome& expected) {
  for (std::size_t rank = 0; rank < of.size(); ++rank) {
    CAPTURE(rank);
    CHECK(of[rank] == expected);
  }
}
void wait_for(const std::atomic<int>& counter, int count) {
  while (counter.load() < count) std::this_thread::yield();
}

}  // namespace

TEST_CASE("rows and columns, and parts of them, compute beside each other and beside the whole") {
  const deadline limit(60s);
  for (const int columns : {1, 2, 3}) {
    CAPTURE(columns);
    const int ranks = 2 * columns;
    check_all(on_ranks(ranks,
                       [&](comm_type& comm) {
                         const int me = comm.rank();
                         CHECK(comm.transport().next_group() == 1);
                         auto row = comm.split(me / columns);
                         auto column = comm.split(me % columns, -me);
                         CHECK(comm.transport().next_group() == 3);
                         CHECK(row.size() == columns);
                         CHECK(row.rank() == me % columns);
                         CHECK(column.size() == 2);
                         CHECK(column.rank() == 1 - me / columns);  // by key
                         const int first = me / columns * columns;
                         for (const std::size_t count : {std::size_t{1}, std::size_t{5'000}, std::size_t{200'000}}) {
                           CHECK(sum(row, me * me, count) == squares(first, 1, first + columns));
                           CHECK(sum(column, me * me, count) == squares(me % columns, columns, ranks));
                           CHECK(sum(comm, me * me, count) == squares(0, 1, ranks));
                         }
                         std::optional<comm_type> even(std::in_place,
                                                       tutti::tcp(comm.transport()));  // the same group again
                         even.reset();
                         auto some =
                             row.split(row.rank() == 0 ? std::optional<int>(tutti::undefined) : std::optional<int>(7));
                         CHECK(some.has_value() == (row.rank() != 0));
                         if (some) CHECK(sum(*some, me * me) == squares(first + 1, 1, first + columns));
                         auto alone = column.split(column.rank());
                         CHECK(sum(alone, me) == me);
                         auto same = alone.dup();
                         CHECK(sum(same, me) == me);
                       }),
              {});
  }
}

TEST_CASE("collectives are pending on several communicators at once, in any order") {
  const deadline limit(60s);
  check_all(on_ranks(4,
                     [](comm_type& comm) {
                       const int me = comm.rank();
                       auto pair = comm.split(me / 2);
                       auto copy = comm.dup();
                       auto reversed = copy.split(0, -me);
                       for (int round = 0; round < 6; ++round) {
                         const auto count = static_cast<std::size_t>(1 + round % 3 * 40'000);
                         std::vector<std::vector<int>> values(8, std::vector<int>(count, me + round));
                         std::vector<tutti::pending<comm_type>> pending;
                         std::vector<comm_type*> comms{&comm, &pair, &copy, &reversed};
                         for (std::size_t i = 0; i < values.size(); ++i)
                           pending.push_back(tutti::iallreduce(*comms[(i + static_cast<std::size_t>(round)) % 4],
                                                               values[i], std::plus{}));
                         // Each rank waits in an order of its own.
                         for (std::size_t i = 0; i < values.size(); ++i)
                           pending[(i * 3 + static_cast<std::size_t>(me)) % values.size()].wait();
                         for (std::size_t i = 0; i < values.size(); ++i) {
                           const bool of_two = (i + static_cast<std::size_t>(round)) % 4 == 1;
                           CHECK(values[i].back() == (of_two ? me / 2 * 4 + 1 + 2 * round : 6 + 4 * round));
                         }
                       }
                     }),
            {});
}

TEST_CASE("a communicator costs no descriptor, and one that is not used no connection") {
  const deadline limit(30s);
  std::atomic<int> ready{0};
  std::atomic<int> counted{0};
  std::atomic<int> done{0};
  check_all(on_ranks(2,
                     [&](comm_type& comm) {
                       tutti::barrier(comm);
                       ++ready;
                       wait_for(ready, 2);
                       const int before = comm.rank() == 0 ? open_sockets() : 0;
                       ++counted;
                       wait_for(counted, 2);
                       std::deque<comm_type> many;
                       for (int i = 0; i < 20; ++i) {
                         const int both[]{1, 0};
                         many.emplace_back(comm.transport().subgroup(comm.transport().next_group(), both));
                         CHECK(many.back().rank() == 1 - comm.rank());
                       }
                       for (comm_type& each : many) CHECK(sum(each, 3) == 6);
                       if (comm.rank() == 0) CHECK(open_sockets() <= before);  // those of handshakes may have gone
                       ++done;
                       wait_for(done, 2);
                     }),
            {});
}

TEST_CASE("a mismatch fails all ranks of its communicator alike, and no other") {
  const deadline limit(60s);
  std::vector<outcome> inside(6);
  check_all(on_ranks(6,
                     [&](comm_type& comm) {
                       const int me = comm.rank();
                       auto part = comm.split(me % 2, -me);  // 4, 2, 0 and 5, 3, 1
                       auto copy = part.dup();
                       tutti::barrier(part);
                       inside[static_cast<std::size_t>(me)] = outcome_of([&] {
                         // Rank 3 is rank 1 of those that are odd.
                         sum(part, 1, me == 3 ? 11 : 10);
                         for (int i = 0; i < 3; ++i) tutti::barrier(part);
                       });
                       if (me % 2 == 1) CHECK_THROWS_AS(tutti::barrier(part), tutti::mismatch);
                       CHECK(sum(copy, 1) == 3);
                       CHECK(sum(comm, 1) == 6);
                       auto next = comm.split(0);
                       CHECK(sum(next, 1) == 6);
                     }),
            {});
  for (const int me : {0, 2, 4}) CHECK(inside[static_cast<std::size_t>(me)] == outcome{});
  CHECK(inside[1].kind == "mismatch");
  CHECK(inside[3] == inside[1]);
  CHECK(inside[5] == inside[1]);
  CAPTURE(inside[1].text);
  CHECK(contains(inside[1].text, "rank 1 called allreduce of 11 x int"));
  CHECK(contains(inside[1].text, "called allreduce of 10 x int"));
  CHECK(contains(inside[1].text, " (ranks of a communicator of ranks 5, 3, 1)"));
}

TEST_CASE("a mismatch is found where nobody sends anything") {
  const deadline limit(30s);
  std::vector<outcome> inside(3);
  check_all(on_ranks(3,
                     [&](comm_type& comm) {
                       auto part = comm.split(comm.rank() == 1 ? 1 : 0);
                       inside[static_cast<std::size_t>(comm.rank())] = outcome_of([&] {
                         std::vector<int> values(10);
                         if (comm.rank() != 1)
                           tutti::broadcast(part, values, 1 - part.rank());  // each waits for the other
                       });
                       tutti::barrier(comm);
                     }),
            {});
  CHECK(inside[0].kind == "mismatch");
  CHECK(contains(inside[0].text, "root 1"));
  CHECK(contains(inside[0].text, "root 0"));
  CHECK(contains(inside[0].text, " (ranks of a communicator of ranks 0, 2)"));
  CHECK(inside[1] == outcome{});
  CHECK(inside[2] == inside[0]);
}

TEST_CASE("who is late is named by all ranks of the communicator, also by one that comes to it later") {
  const deadline limit(60s);
  for (const bool joined : {true, false}) {
    CAPTURE(joined);
    std::vector<outcome> inside(4);
    std::atomic<int> thrown{0};
    check_all(on_ranks(4,
                       [&](comm_type& comm) {
                         const int me = comm.rank();
                         comm.timeout(100ms);
                         const int members[]{3, 1, 2};
                         if (me != 0) {
                           if (me == 2 && !joined) wait_for(thrown, 2);
                           comm_type part(comm.transport().subgroup(1, members));  // has its parent's timeout
                           if (me == 2 && joined) wait_for(thrown, 2);
                           inside[static_cast<std::size_t>(me)] = outcome_of([&] { tutti::barrier(part); });
                           ++thrown;
                           wait_for(thrown, 3);
                         } else {
                           wait_for(thrown, 3);
                         }
                         comm.timeout(60s);
                         tutti::barrier(comm);
                       }),
              {});
    CHECK(inside[1].kind == "timed_out");
    CHECK(inside[1].peer == 2);
    CAPTURE(inside[1].text);
    CHECK(contains(inside[1].text, "rank 2 was late: rank "));
    CHECK(contains(inside[1].text, ", which that rank has not called (ranks of a communicator of ranks 3, 1, 2)"));
    CHECK(inside[2] == inside[1]);
    CHECK(inside[3] == inside[1]);
  }
}

TEST_CASE("abort ends its communicator on all its ranks, from any thread, and nothing else") {
  const deadline limit(30s);
  std::vector<outcome> inside(3);
  check_all(on_ranks(3,
                     [&](comm_type& comm) {
                       const int me = comm.rank();
                       auto part = comm.split(me == 0 ? 0 : 1);
                       std::thread aborts;
                       if (me == 1) aborts = std::thread([&] { part.abort("no more shoes"); });
                       inside[static_cast<std::size_t>(me)] = outcome_of([&] {
                         if (me != 0)
                           for (;;) tutti::barrier(part);
                       });
                       if (aborts.joinable()) aborts.join();
                       CHECK(sum(comm, 1) == 3);
                     }),
            {});
  const outcome expected{"peer_failed",
                         "rank 0 aborted: no more shoes (ranks of a communicator of ranks 1, 2): peer failed", 0};
  CHECK(inside[0] == outcome{});
  CHECK(inside[1] == expected);
  CHECK(inside[2] == expected);
}

TEST_CASE("a rank that throws or leaves fails those who wait for it in any communicator") {
  const deadline limit(60s);
  for (const int how : {0, 1}) {
    CAPTURE(how);
    std::atomic<int> ready{0};
    auto of = on_ranks(3, [&](comm_type& comm) {
      auto part = comm.split(0, -comm.rank());
      auto pair = comm.split(comm.rank() == 2 ? 1 : 0);
      ++ready;
      if (comm.rank() == 2) {
        wait_for(ready, 3);  // until then others may still be in a call of all ranks
        if (how == 0) throw std::runtime_error("no shoes");
        return;
      }
      for (;;) tutti::barrier(comm.rank() == 0 ? part : pair);
    });
    if (how == 0) {
      CHECK(of[2] == outcome{"other", "no shoes", -1});
      CHECK(of[0] == outcome{"peer_failed",
                             "rank 2 failed: no shoes (rank 0 of a communicator of ranks 2, 1, 0): peer failed", 0});
      CHECK(of[1] == outcome{"peer_failed",
                             "rank 2 failed: no shoes (no rank of a communicator of ranks 0, 1): peer failed", -1});
    } else {
      for (const outcome& each : of) CHECK(each.kind == "peer_failed");
      CHECK(contains(of[2].text, " left while rank "));
    }
  }
}

TEST_CASE("a rank that dies is named by all, in whatever communicator they wait") {
  const alarm_limit limit(60);
  const auto ended = outcomes_on_processes(3, {}, [](comm_type& comm, rank_report&) {
    auto part = comm.split(comm.rank() == 0 ? 0 : 1);
    auto copy = comm.dup();
    tutti::barrier(copy);
    if (comm.rank() == 2) _exit(3);
    for (;;) tutti::barrier(comm.rank() == 1 ? part : copy);
  });
  CHECK(ended.on(0).kind == "peer_failed");
  CHECK(ended.on(0).peer == 2);
  CHECK(ended.on(1).kind == "peer_failed");
  CHECK(ended.on(1).peer == 1);
  CHECK(contains(ended.on(1).text, " (rank 1 of a communicator of ranks 1, 2)"));
}

TEST_CASE("a rank whose communicator goes while an exception passes is named with that exception") {
  const deadline limit(30s);
  struct slow_to_go {
    ~slow_to_go() {
      const auto until = std::chrono::steady_clock::now() + 100ms;  // the others look for this rank meanwhile
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    }
  };
  const auto of = on_ranks(3, [&](comm_type& comm) {
    const slow_to_go last;
    auto part = comm.dup();
    tutti::barrier(part);
    if (comm.rank() == 1) throw std::runtime_error("no shoes");
    tutti::barrier(part);
  });
  CHECK(of[0] ==
        outcome{"peer_failed", "rank 1 failed: no shoes (rank 1 of a communicator of ranks 0-2): peer failed", 1});
  CHECK(of[1] == outcome{"other", "no shoes", -1});
  CHECK(of[2] == of[0]);
}

TEST_CASE("who waits for a rank that has left the communicator is told so, and the others go on") {
  const deadline limit(30s);
  std::vector<outcome> inside(3);
  check_all(
      on_ranks(3,
               [&](comm_type& comm) {
                 const int me = comm.rank();
                 std::optional<comm_type> part(std::in_place, comm.dup().transport().subgroup(2, std::vector{2, 1, 0}));
                 CHECK(sum(*part, me) == 3);
                 if (me == 2) part.reset();
                 if (part) inside[static_cast<std::size_t>(me)] = outcome_of([&] { tutti::barrier(*part); });
                 CHECK(sum(comm, 1) == 3);
               }),
      {});
  CAPTURE(inside[0].text);
  CHECK(inside[0].kind == "peer_failed");
  CHECK(inside[0].peer == 0);
  CHECK(contains(inside[0].text, "rank 0 left while rank "));
  CHECK(contains(inside[0].text, "barrier"));
  CHECK(contains(inside[0].text, "call 2 at"));
  CHECK(contains(inside[0].text, " (ranks of a communicator of ranks 2, 1, 0)"));
  CHECK(inside[1] == inside[0]);
}

TEST_CASE(
    "who waits for a rank that has left the communicator long ago, or for a message of one, is told so, and soon") {
  const deadline limit(30s);
  for (const bool by_message : {false, true}) {
    for (const int others : {0, 40}) {
      CAPTURE(by_message);
      CAPTURE(others);
      std::vector<outcome> inside(3);
      std::chrono::steady_clock::duration waited{};
      check_all(on_ranks(3,
                         [&](comm_type& comm) {
                           const int me = comm.rank();
                           std::deque<comm_type> parts;
                           const int members[]{2, 1, 0};
                           while (static_cast<int>(parts.size()) < 1 + others)
                             parts.emplace_back(comm.transport().subgroup(comm.transport().next_group(), members));
                           comm_type& part = parts.front();
                           CHECK(sum(part, me) == 3);
                           std::vector<int> values(1);
                           if (me == 2) tutti::send(part, 2, std::vector{5});
                           while (me == 2 && !parts.empty()) parts.pop_front();
                           if (me == 0) {
                             tutti::recv(part, 0, values);
                             CHECK(values[0] == 5);
                           }
                           tutti::barrier(comm);
                           const auto begin = std::chrono::steady_clock::now();
                           if (me != 2)
                             inside[static_cast<std::size_t>(me)] = outcome_of([&] {
                               if (me == 0 && by_message) tutti::recv(part, 0, values);
                               tutti::barrier(part);
                             });
                           if (me == 0) waited = std::chrono::steady_clock::now() - begin;
                           CHECK(sum(comm, 1) == 3);
                         }),
                {});
      CAPTURE(inside[0].text);
      CHECK(inside[0].kind == "peer_failed");
      CHECK(inside[0].peer == 0);
      CHECK(contains(inside[0].text, "rank 0 left while rank "));
      CHECK(contains(inside[0].text, " (ranks of a communicator of ranks 2, 1, 0)"));
      CHECK(inside[1] == inside[0]);
      CHECK(waited < 3s);  // nobody waited for a heartbeat, which is longer
    }
  }
}

TEST_CASE("what a rank has sent before it left arrives, and what comes for one that has left does no harm") {
  const deadline limit(60s);
  check_all(on_ranks(2,
                     [&](comm_type& comm) {
                       for (int round = 0; round < 60; ++round) {
                         const auto size = static_cast<std::size_t>(round % 4 == 0 ? 100'000 : round);
                         std::vector<int> values(size, comm.rank() == round % 2 ? round : 0);
                         {
                           auto copy = comm.dup();
                           tutti::broadcast(copy, values, round % 2);
                         }
                         if (!values.empty()) CHECK(values.back() == round);
                         auto copy = comm.dup();
                         values.assign(20, 0);
                         if (comm.rank() == round % 2) tutti::broadcast(copy, values, round % 2);  // the other does not
                       }
                       tutti::barrier(comm);
                     }),
            {});
}

TEST_CASE("a mismatch on a communicator that a rank leaves with is found in the end") {
  const deadline limit(30s);
  std::vector<std::optional<comm_type>> left(4);
  const auto keep_a_copy = [&](comm_type& comm) -> comm_type& {
    auto& mine = left[static_cast<std::size_t>(comm.rank())];
    const int members[]{3, 1};
    return mine.emplace(comm.transport().subgroup(1, members));
  };
  const auto of = on_ranks(4, [&](comm_type& comm) {
    if (comm.rank() % 2 == 0) return;
    comm_type& kept = keep_a_copy(comm);
    tutti::barrier(kept);
    std::vector<int> values(10);
    if (comm.rank() == 3) tutti::broadcast(kept, values, 0);
  });
  CAPTURE(of[0].text);
  CHECK(of[0].kind == "mismatch");
  CHECK(contains(of[0].text, "rank 0 called broadcast of 10 x int"));
  CHECK(contains(of[0].text, "rank 1 called nothing that fits (ranks of a communicator of ranks 3, 1)"));
  check_all(of, of[0]);
}

TEST_CASE("a communicator that outlives the run is of no use, and harmless") {
  const deadline limit(30s);
  std::vector<std::optional<comm_type>> left(2);
  check_all(on_ranks(2,
                     [&](comm_type& comm) {
                       auto& mine = left[static_cast<std::size_t>(comm.rank())];
                       const int members[]{1, 0};
                       mine.emplace(comm.transport().subgroup(1, members));
                       CHECK(sum(*mine, 1) == 2);
                     }),
            {});
  CHECK(contains(outcome_of([&] { tutti::barrier(*left[0]); }).text, "the run that made this communicator has ended"));
  const int both[]{0, 1};
  CHECK_THROWS_AS(left[1]->transport().subgroup(5, both), tutti::usage_error);
}

TEST_CASE("what cannot be a communicator is refused with the value that is wrong") {
  const deadline limit(30s);
  check_all(on_ranks(2,
                     [&](comm_type& comm) {
                       tutti::tcp& transport = comm.transport();
                       auto copy = comm.dup();
                       const int me = comm.rank();
                       const auto text = [&](int number, std::vector<int> members) {
                         const outcome o = outcome_of([&] { transport.subgroup(number, members); });
                         return o.kind + ": " + o.text;
                       };
                       const std::string here = "subgroup on rank " + std::to_string(me) + " of 2: ";
                       CHECK(contains(text(1, {0, 1}), "usage_error: " + here + "its number is 1, must be at least 2"));
                       CHECK(contains(text(2, {0, 2, 1}), here + "a member is rank 2, of 2"));
                       CHECK(contains(text(2, {0, -1, 1}), here + "a member is rank -1, of 2"));
                       CHECK(contains(text(2, {0, 1, 0}), here + "rank 0 is in it twice"));
                       CHECK(contains(text(2, {1 - me}), here + "this rank is not in it"));
                       CHECK(contains(text(INT_MAX, {0, 1}), "resource_error: rank " + std::to_string(me) +
                                                                 " of 2 can make no more communicators"));
                       CHECK(transport.next_group() == 2);
                       const int both[]{0, 1};
                       comm_type last(transport.subgroup(INT_MAX - 1, both));
                       CHECK(sum(last, 1) == 2);
                       CHECK(transport.next_group() == INT_MAX);
                     }),
            {});
}

TEST_CASE("a rank without others has communicators, too") {
  tutti::run_tcp(1, [](comm_type& comm) {
    auto part = comm.split(3);
    auto copy = part.dup();
    CHECK(sum(copy, 4) == 4);
    part.abort("no shoes");
    CHECK(outcome_of([&] { tutti::barrier(part); }) ==
          outcome{"peer_failed", "rank 0 aborted: no shoes (the rank of a communicator of rank 0): peer failed", 0});
    tutti::barrier(comm);
    tutti::barrier(copy);
  });
}

TEST_CASE("of thousands of communicators in a row nothing is left, also where one rank keeps some") {
  const deadline limit(120s);
  const int rounds = sanitized ? 1'000 : 10'000;
  std::atomic<std::size_t> before{0};
  check_all(on_ranks(3,
                     [&](comm_type& comm) {
                       const int me = comm.rank();
                       std::deque<std::optional<comm_type>> kept;
                       const int members[]{2, 0, 1};
                       for (int round = 0; round < rounds; ++round) {
                         // The last rank is slow to let them go.
                         auto& made = kept.emplace_back();
                         made.emplace(comm.transport().subgroup(comm.transport().next_group(), members));
                         const auto pending_too = round % 64 == 0;
                         std::vector<int> values(10, 1);
                         if (pending_too) {
                           auto pending = tutti::iallreduce(*made, values, std::plus{});
                           pending.wait();
                         }
                         if (round % 2 == 0) CHECK(sum(*made, 1) == 3);
                         // Each waits for each, and so reads what has come: else it would fill the sockets.
                         if (round % 32 == 0) tutti::barrier(*made);
                         // Nobody takes what the last of them has sent.
                         if (made->rank() == 0 && round % 3 == 0) tutti::broadcast(*made, values, 0);
                         while (kept.size() > (me == 2 ? 7U : 0U)) kept.pop_front();
                         if (me == 1 && round == rounds / 10) before = mallinfo2().uordblks;
                       }
                       tutti::barrier(comm);
                       kept.clear();
                       if (me == 1) {
                         // Megabytes, if each left as much as a log.
                         CHECK(mallinfo2().uordblks < before.load() + 200'000);
                         CHECK(comm.transport().next_group() == rounds + 1);
                       }
                       tutti::barrier(comm);
                     }),
            {});
}

// ---- One connection, whose other end the test holds

namespace {

using bytes = std::vector<std::byte>;
using tutti::detail::tcp_connection;
using tutti::detail::tcp_frame_kind;
using tutti::detail::tcp_group_numbers;
using tutti::detail::tcp_header;

bytes frame(std::uint64_t lane, std::size_t size, tcp_frame_kind kind = tcp_frame_kind::message) {
  bytes made(tcp_header::size + size, std::byte{7});
  tutti::detail::encode({size, kind == tcp_frame_kind::message ? 5U : 0U, lane, kind}, made.data());
  return made;
}

struct tested {
  explicit tested(int buffer = 0) {
    auto [one, two] = connected_pair(false, buffer);
    tutti::detail::tcp_tuning tuning;
    tuning.kept_bytes = 1000;
    connection.tune(tuning);
    connection.know(numbers);
    connection.establish(std::move(one));
    other = std::move(two);
  }
  void write(const bytes& all) {
    REQUIRE(::send(other.get(), all.data(), all.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(all.size()));
  }
  bytes read() {
    bytes got(1 << 20);
    const ssize_t n = ::recv(other.get(), got.data(), got.size(), MSG_DONTWAIT);
    got.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return got;
  }
  /// Reads what comes, by asking for a message of the whole group that comes last.
  bool lane_0_arrives() {
    std::byte memory[4];
    connection.ask(0, memory, 4, 5);
    const bool arrived = connection.look(0);
    connection.take(0);
    return arrived;
  }

  tcp_group_numbers numbers;
  tcp_connection connection;
  descriptor_owner other;
};

}  // namespace

TEST_CASE("what comes for communicators that are gone is forgotten, for those to come it is kept, for some of them") {
  tested t;
  t.numbers.add(1);
  t.numbers.add(2);
  t.numbers.remove(1);
  t.write(frame(tcp_lane_id::of(1, 3), 5'000));
  t.write(frame(tcp_lane_id::of(1, 4), 0, tcp_frame_kind::pause));
  t.write(frame(tcp_lane_id::of(2, 0), 10));
  t.write(frame(tcp_lane_id::of(7, 1023), 10));
  t.write(frame(0, 4));
  CHECK(t.lane_0_arrives());
  CHECK(t.connection.groups_known() == 2);
  t.numbers.add(7);
  std::byte memory[10];
  t.connection.ask(tcp_lane_id::of(7, 1023), memory, 10, 5);
  CHECK(t.connection.look(tcp_lane_id::of(7, 1023)));
  CHECK(memory[9] == std::byte{7});
  // 7 goes while what came last lies there.
  t.numbers.remove(7);
  t.connection.leave(7);
  CHECK(t.connection.groups_known() == 1);
  CHECK_FALSE(t.connection.has_arrived());
  for (std::uint32_t group = 20; group < 36; ++group) t.write(frame(tcp_lane_id::of(group, 0), 1));
  t.write(frame(0, 4));
  CHECK(t.lane_0_arrives());
  CHECK(t.connection.groups_known() == 17);
  // Some of them never came to be: there is room again.
  t.numbers.add(30);
  t.write(frame(tcp_lane_id::of(40, 0), 1));
  t.write(frame(0, 4));
  CHECK(t.lane_0_arrives());
  CHECK(t.connection.groups_known() == 8);
  for (std::uint32_t group = 41; group < 60; ++group) t.write(frame(tcp_lane_id::of(group, 0), 1));
  CHECK_FALSE(t.lane_0_arrives());
  CHECK(t.connection.corrupt());
}

TEST_CASE("a communicator goes in the middle of a message, and the rest of it is forgotten") {
  for (const bool abandoned : {false, true}) {
    for (const bool asked : {false, true}) {
      CAPTURE(abandoned);
      CAPTURE(asked);
      tested t;
      t.numbers.add(1);
      const std::uint64_t lane = tcp_lane_id::of(1, 0);
      const bytes whole = frame(lane, 3'000);
      bytes memory(3'000);
      if (asked) t.connection.ask(lane, memory.data(), memory.size(), 5);
      t.write({whole.begin(), whole.begin() + 1'500});
      CHECK_FALSE(t.connection.look(0));
      if (abandoned) {
        t.connection.abandon(lane);
      } else {
        t.numbers.remove(1);
        t.connection.leave(1);
      }
      CHECK(t.connection.groups_known() == (abandoned ? 1 : 0));
      memory.assign(3'000, std::byte{9});
      t.write({whole.begin() + 1'500, whole.end()});
      t.write(frame(0, 4));
      CHECK(t.lane_0_arrives());
      CHECK(memory == bytes(3'000, std::byte{9}));
      CHECK_FALSE(t.connection.broken());
    }
  }
}

TEST_CASE("a peer that was asked to pause may go on when the communicator is gone, and what it sends is not kept") {
  tested t;
  t.numbers.add(1);
  const std::uint64_t lane = tcp_lane_id::of(1, 2);
  t.write(frame(lane, 2'000));
  t.write(frame(0, 4));
  CHECK(t.lane_0_arrives());
  CHECK(t.connection.flush());
  CHECK(t.read() == frame(lane, 0, tcp_frame_kind::pause));
  t.numbers.remove(1);
  t.connection.leave(1);
  CHECK(t.read() == frame(lane, 0, tcp_frame_kind::resume));
  t.write(frame(lane, 2'000));
  t.write(frame(0, 4));
  CHECK(t.lane_0_arrives());
  CHECK(t.connection.flush());
  CHECK(t.read().empty());
  CHECK(t.connection.groups_known() == 0);
}

TEST_CASE("what a communicator that ends still had to send is sent if it was copied, and what has begun is ended") {
  for (const bool leaves : {false, true}) {
    CAPTURE(leaves);
    tested t(4096);
    t.numbers.add(1);
    const std::uint64_t lane = tcp_lane_id::of(1, 0);
    bytes large(100'000, std::byte{1});
    bytes small(10, std::byte{2});
    CHECK_FALSE(t.connection.send(lane, 5, large.data(), large.size(), false));
    CHECK(t.connection.send(lane, 5, small.data(), small.size(), true));
    CHECK_FALSE(t.connection.send(lane, 5, small.data(), small.size(), false));
    CHECK_FALSE(t.connection.send(0, 5, small.data(), small.size(), false));
    if (leaves) {
      t.numbers.remove(1);
      t.connection.leave(1);
    } else {
      t.connection.abandon(lane);
    }
    std::fill(large.begin(), large.end(), std::byte{3});
    CHECK_FALSE(t.connection.sent(0));
    bytes all;
    for (int i = 0; i < 1'000 && !(t.connection.flush() && i > 0); ++i) {
      const bytes part = t.read();
      all.insert(all.end(), part.begin(), part.end());
    }
    const bytes part = t.read();
    all.insert(all.end(), part.begin(), part.end());
    const std::size_t copied = leaves ? tcp_header::size + small.size() : 0;  // of one that has failed it is not needed
    REQUIRE(all.size() == 2 * tcp_header::size + 100'010 + copied);
    CHECK(all[tcp_header::size] == std::byte{1});
    CHECK(all[tcp_header::size + 99'999] == std::byte{1});
    if (leaves) CHECK(all[2 * tcp_header::size + 100'000] == std::byte{2});
    CHECK(tutti::detail::decode_tcp_header(all.data() + tcp_header::size + 100'000 + copied).lane == 0);
    CHECK(t.connection.sent(0));
    CHECK(t.connection.sent(lane));
    CHECK_FALSE(t.connection.broken());
  }
}
