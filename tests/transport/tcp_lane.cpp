// SPDX-License-Identifier: BSL-1.0

// Lanes over data connections, below collectives: order, messages larger than the sockets hold, waiting, and what ends
// it.

#include <tutti/transport/tcp/lane.hpp>

#include "deadline.hpp"
#include "transport/tcp_data.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

using lane = wired::lane_type;
using bytes = std::vector<std::byte>;

constexpr tutti::call_signature signature{"test", "hand", "std::byte", "", 1};
tutti::call call_number(std::uint64_t number, std::size_t count = 0) {
  tutti::call c;
  c.signature = &signature;
  c.sequence = number;
  c.count = count;
  return c;
}

/// The ranks of a group, and some lanes of each, with a call opened.
struct ends {
  explicit ends(int ranks, const wiring& how = {}, int count = 1)
      : all(ranks, how), lanes(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports.emplace_back(all.group(rank));
      for (int index = 0; index < count; ++index) {
        of(rank).push_back(transports.back().make_lane(index));
        of(rank).back().open(call_number(1 + static_cast<std::uint64_t>(index)));
        of(rank).back().begin_round();
      }
    }
  }
  std::deque<lane>& of(int rank) { return lanes[static_cast<std::size_t>(rank)]; }
  lane& operator[](int rank) { return of(rank)[0]; }

  wires all;
  std::deque<wired> transports;
  std::vector<std::deque<lane>> lanes;
};

/// A message that tells its number in every byte.
bytes message(std::size_t number, std::size_t size) { return bytes(size, static_cast<std::byte>(number * 7 + 1)); }

bool receive_if_there(lane& to, int from, const bytes& expected) {
  const std::byte* const there = to.view(from, expected.size());
  if (there == nullptr) return false;
  to.claim(from);
  if (bytes(there, there + expected.size()) != expected) throw std::logic_error("another message");
  to.release(from);
  return true;
}
void receive(lane& to, int from, const bytes& expected) {
  while (!receive_if_there(to, from, expected)) to.idle();
  to.awake();
}
void send(lane& from, int to, const bytes& content, bool copy = false) {
  from.send(to, content.data(), content.size(), copy);
}
void settle(lane& l) {
  while (!l.settled()) l.idle();
  l.awake();
}

/// `work(rank)` in a thread for each; rethrows what one threw.
template <class F>
void in_threads(int ranks, F&& work) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
}

/// What it throws, as text; empty if nothing.
template <class Error, class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

wiring with(std::size_t call_bytes, int buffer = 0, bool loopback = false) {
  wiring how;
  how.tuning.call_bytes = call_bytes;
  how.socket_buffer = buffer;
  how.loopback = loopback;
  return how;
}

}  // namespace

TEST_CASE("messages arrive in the order in which they were sent, of all sizes") {
  const deadline limit(30s);
  for (const bool copy : {false, true}) {
    ends e(2);
    std::vector<bytes> sent;
    for (std::size_t i = 0; i < 40; ++i) sent.push_back(message(i, i * i * i % 5000));
    for (const bytes& m : sent) send(e[0], 1, m, copy);
    for (const bytes& m : sent) CHECK(receive_if_there(e[1], 0, m));
    CHECK(e[0].settled());
    CHECK_FALSE(receive_if_there(e[1], 0, {}));
  }
}

TEST_CASE("messages land where they are wanted, or in memory of the lane that is used again") {
  ends e(2);
  const bytes m = message(1, 3000);
  bytes place(3000);
  send(e[0], 1, m);
  CHECK(e[1].view(0, 3000, place.data()) == place.data());
  CHECK(place == m);
  e[1].release(0);
  const std::byte* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    send(e[0], 1, m);
    const std::byte* const there = e[1].view(0, 3000);
    REQUIRE(there != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(there) % 64 == 0);
    if (first == nullptr) first = there;
    CHECK(there == first);
    e[1].release(0);
  }
  send(e[0], 1, {});
  bytes untouched(1, std::byte{0xA5});
  CHECK(e[1].try_recv(0, untouched.data(), 0));
  CHECK(untouched[0] == std::byte{0xA5});
}

TEST_CASE("both send at once what the sockets cannot hold, in all portions") {
  const deadline limit(60s);
  for (const auto& how : {with(1 << 30, 4096), with(4095, 4096), with(1 << 30, 0, true), with(1 << 18, 4096, true)}) {
    ends e(2, how);
    const bytes of_rank[2] = {message(1, 600'000), message(2, 600'000)};
    in_threads(2, [&](int rank) {
      for (int round = 0; round < 3; ++round) {
        e[rank].begin_round();
        send(e[rank], 1 - rank, of_rank[rank]);
        receive(e[rank], 1 - rank, of_rank[1 - rank]);
        settle(e[rank]);
      }
    });
  }
  for (const std::size_t call : {std::size_t{1}, std::size_t{7}}) {
    ends e(2, with(call, 4096));
    const bytes of_rank[2] = {message(1, 12'000), message(2, 12'000)};
    in_threads(2, [&](int rank) {
      send(e[rank], 1 - rank, of_rank[rank]);
      receive(e[rank], 1 - rank, of_rank[1 - rank]);
      settle(e[rank]);
    });
  }
}

TEST_CASE("lanes share one connection, whichever is waited for first") {
  const deadline limit(60s);
  constexpr int lanes = 4;
  for (const auto& how : {with(1 << 30), with(4095, 4096), with(7), with(1 << 18, 0, true)}) {
    ends e(2, how, lanes);
    const std::size_t large = how.tuning.call_bytes == 7 ? 3000 : 150'000;
    in_threads(2, [&](int rank) {
      std::vector<bytes> sent;
      for (std::size_t i = 0; i < 10 * lanes; ++i) sent.push_back(message(i, i % 3 == 0 ? large : i));
      if (rank == 0) {
        for (std::size_t i = 0; i < sent.size(); ++i) send(e.of(0)[i % lanes], 1, sent[i], i % 3 != 0);
        for (lane& l : e.of(0)) settle(l);
      } else {
        for (std::size_t l = lanes; l-- > 0;)
          for (std::size_t i = l; i < sent.size(); i += lanes) receive(e.of(1)[l], 0, sent[i]);
      }
    });
  }
}

TEST_CASE("a lane that nobody takes messages from holds its sender back, and no other lane") {
  const deadline limit(60s);
  wiring how;
  how.tuning.kept_bytes = 20'000;
  ends e(2, how, 2);
  const bytes large = message(1, 10'000);
  const bytes small = message(2, 10);
  constexpr int count = 2000;  // more than sockets and 8 MiB unread
  in_threads(2, [&](int rank) {
    if (rank == 0) {
      for (int i = 0; i < count; ++i) {
        send(e.of(0)[1], 1, large);
        e.of(0)[1].settled();
      }
      send(e.of(0)[0], 1, small);
      settle(e.of(0)[0]);
      settle(e.of(0)[1]);
      receive(e.of(0)[0], 1, small);
    } else {
      receive(e.of(1)[0], 0, small);
      // Of what was sent most is still with the sender.
      const std::size_t kept = e.all.group(1).connection(0).end_of(1).kept.size();
      CHECK(kept > how.tuning.kept_bytes);
      CHECK(kept < std::size_t{10} << 20);
      for (int i = 0; i < count; ++i) receive(e.of(1)[1], 0, large);
      send(e.of(1)[0], 0, small);
      settle(e.of(1)[0]);
    }
  });
}

TEST_CASE("what one lane reads for another is not slept over") {
  const deadline limit(30s);
  ends e(3, {}, 3);
  const bytes m = message(1, 5);
  auto& lanes = e.of(0);
  // Lanes 1 and 2 wait for rank 1, and the look of lane 1 reads what is for both; lane 0 sleeps waiting for rank 2,
  // which waits for what lane 2 sends then.
  CHECK_FALSE(receive_if_there(lanes[2], 1, m));
  send(e.of(1)[1], 0, m);
  send(e.of(1)[2], 0, m);
  CHECK(receive_if_there(lanes[1], 1, m));
  const auto started = std::chrono::steady_clock::now();
  int idles = 0;
  while (!e.all.group(0).connection(1).has_arrived()) {
    CHECK_FALSE(receive_if_there(lanes[0], 2, m));
    lanes[0].idle();
    ++idles;
  }
  CHECK(receive_if_there(lanes[2], 1, m));
  CHECK(std::chrono::steady_clock::now() - started < 25s);
  CHECK(idles < 100);
}

TEST_CASE("who waits for one more message sleeps, though another has arrived and is not given back yet") {
  const deadline limit(30s);
  ends e(3);
  const bytes m = message(1, 5);
  send(e[1], 0, m);
  const std::byte* first = nullptr;
  while ((first = e[0].view(1, m.size())) == nullptr) e[0].idle();
  e[0].awake();
  CHECK_FALSE(e.all.group(0).connection(1).has_arrived());
  const auto started = std::chrono::steady_clock::now();
  int idles = 0;
  for (; std::chrono::steady_clock::now() - started < 50ms; ++idles) {
    CHECK_FALSE(receive_if_there(e[0], 2, m));
    e[0].idle();
  }
  CHECK(idles < 50);
  send(e[2], 0, m);
  receive(e[0], 2, m);
  CHECK(bytes(first, first + m.size()) == m);
  e[0].release(1);
}

TEST_CASE("connections are made when somebody sends, once") {
  const deadline limit(30s);
  for (const bool loopback : {false, true}) {
    wiring how;
    how.on_demand = true;
    how.loopback = loopback;
    ends e(3, how);
    const bytes m = message(1, 100'000);
    in_threads(2, [&](int rank) {
      for (int i = 0; i < 3; ++i) {
        if (rank == 0) send(e[0], 1, m);
        if (rank == 1) receive(e[1], 0, m);
        settle(e[rank]);
      }
    });
    CHECK(e.all.group(0).wanted == 1);
    CHECK(e.all.group(1).wanted == 0);
    CHECK_FALSE(e.all.group(0).connection(2).established());
  }
}

TEST_CASE("who waits longer than the deadline says for whom, in which round of which call") {
  const deadline limit(30s);
  for (const auto busy : {0ns, std::chrono::nanoseconds(5ms)}) {
    wiring how;
    how.tuning.busy_poll = busy;
    how.tuning.crowded = busy == 0ns;
    ends e(2, how);
    e.transports[0].timeout(30ms);
    e[0].begin_round();
    const bytes m = message(1, 10);
    const std::string text = thrown<tutti::timed_out>([&] { receive(e[0], 1, m); });
    CHECK(contains(text, "rank 1 was late: rank 0 waited "));
    CHECK(contains(text, " in round 1 of test of 0 x std::byte (1 bytes each) by hand, call 1"));
    CHECK(e.all.group(0).looks_around <= 1);  // none if the system did not let it run for so long
    CHECK(thrown<tutti::timed_out>([&] { e[1].open(call_number(2)); }) == text);
  }
  // Also who cannot send.
  ends e(2, with(1 << 30, 4096));
  e.transports[0].timeout(30ms);
  const bytes m = message(1, 1'000'000);
  send(e[0], 1, m);
  CHECK(contains(thrown<tutti::timed_out>([&] { settle(e[0]); }), "rank 1 was late"));
  // And who only glances.
  ends g(2);
  g.transports[0].timeout(30ms);
  CHECK(contains(thrown<tutti::timed_out>([&] {
                   while (!receive_if_there(g[0], 1, m)) g[0].glance();
                 }),
                 "rank 1 was late"));
}

TEST_CASE("messages of another call or size are refused") {
  {
    ends e(2);
    e[0].open(call_number(2, 5));
    e[1].open(call_number(2, 6));
    send(e[0], 1, message(1, 5));
    const std::string text = thrown<tutti::mismatch>([&] { receive(e[1], 0, message(1, 5)); });
    CHECK(contains(text, "rank 0 called test of 5 x std::byte"));
    CHECK(contains(text, "rank 1 called test of 6 x std::byte"));
    CHECK(thrown<tutti::mismatch>([&] { receive(e[0], 1, message(1, 5)); }) == text);
  }
  ends e(2);
  send(e[0], 1, message(1, 5));
  CHECK(contains(thrown<tutti::mismatch>([&] { receive(e[1], 0, message(1, 6)); }),
                 "rank 0 sent 5 bytes where rank 1 expects 6 in round 0"));
}

TEST_CASE("ranks that wait for each other in different calls find out without a message") {
  const deadline limit(30s);
  ends e(2);
  e[0].open(call_number(2, 5));
  e[1].open(call_number(2, 6));
  CHECK(contains(thrown<tutti::mismatch>([&] { receive(e[0], 1, message(1, 5)); }), "rank 1 called test of 6"));
}

TEST_CASE("a rank that leaves is told apart from one that is lost") {
  const deadline limit(30s);
  const bytes m = message(1, 100);
  {
    ends e(2);
    send(e[1], 0, m);
    e.all.group(1).leave();
    receive(e[0], 1, m);  // what it sent before stays
    CHECK(contains(thrown<tutti::peer_failed>([&] { receive(e[0], 1, m); }),
                   "rank 1 left while rank 0 waited for it in round 0"));
  }
  {
    ends e(2);
    e.all.group(1).connection(0).shut_down();
    CHECK(contains(thrown<tutti::peer_failed>([&] { receive(e[0], 1, m); }),
                   "rank 0 lost the connection to rank 1: it ended the connection"));
    CHECK(e.all.group(0).losses == 1);
  }
  {
    ends e(2);
    e.all.group(1).connection(0).close();
    send(e[0], 1, m);
    CHECK(contains(thrown<tutti::peer_failed>([&] { settle(e[0]); }), "rank 0 lost the connection to rank 1: "));
  }
  {
    wiring how;
    how.tuning.grace = 30s;
    ends e(2, how);
    e.all.group(1).leave_early();
    const auto started = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - started < 1100ms) {
      CHECK_FALSE(receive_if_there(e[0], 1, m));
      e[0].idle();
    }
    send(e[1], 0, m);
    receive(e[0], 1, m);
  }
  {
    wiring how;
    how.tuning.grace = 20ms;
    ends e(2, how);
    e.all.group(1).leave_early();
    CHECK(contains(thrown<tutti::peer_failed>([&] { receive(e[0], 1, m); }), "rank 1 left while rank 0 waited"));
  }
  // One that never had a connection.
  wiring how;
  how.on_demand = true;
  ends e(2, how);
  e.all.group(1).leave();
  CHECK(contains(thrown<tutti::peer_failed>([&] { receive(e[0], 1, m); }), "rank 1 left while rank 0 waited"));
}

TEST_CASE("a peer that sends nonsense is named") {
  const deadline limit(30s);
  ends e(2);
  const bytes nonsense = message(1, tutti::detail::tcp_header::size);
  REQUIRE(::send(e.all.group(1).connection(0).descriptor(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(nonsense.size()));
  const std::string text = thrown<tutti::peer_failed>([&] { receive(e[0], 1, message(1, 100)); });
  CHECK(contains(
      text,
      "rank 1 sent rank 0 a header that makes no sense: kind 2056, lane 2056 (of 1024) of communicator 134744072"));
}

TEST_CASE("an abandoned collective fails the others, wherever they wait, and leaves memory alone") {
  const deadline limit(60s);
  for (const bool sleeping : {false, true}) {
    wiring how = with(1 << 30, 4096);
    how.tuning.busy_poll = sleeping ? 0ns : std::chrono::nanoseconds(10s);
    ends e(3, how);
    in_threads(3, [&](int rank) {
      const bytes large = message(1, 1'000'000);
      if (rank == 0) {
        bytes memory(1'000'000);
        bytes sent = large;
        send(e[0], 1, sent);
        while (!receive_if_there(e[0], 2, message(3, 1))) e[0].idle();
        CHECK_FALSE(e[0].try_recv(2, memory.data(), memory.size()));
        e[0].abandon("on purpose");
        bytes().swap(sent);  // address sanitizer sees who reads or writes them now
        bytes().swap(memory);
        CHECK_THROWS_AS(e[0].open(call_number(2)), tutti::peer_failed);
        return;
      }
      const std::string text = thrown<tutti::peer_failed>([&] {
        if (rank == 2) send(e[2], 0, message(3, 1));
        if (rank == 2) send(e[2], 0, large);
        if (rank == 1) receive(e[1], 0, large);  // rank 0 may have time to send it
        receive(e[rank], 0, message(1, 7));
      });
      CHECK(text ==
            "rank 0 failed in test of 0 x std::byte (1 bytes each) by hand, call 1 at :0: on purpose: peer failed");
      e[rank].abandon(text);
    });
  }
}

TEST_CASE("lanes have an index that a frame can name") {
  ends e(1);
  CHECK_NOTHROW(e.transports[0].make_lane(1023));
  CHECK(contains(thrown<tutti::usage_error>([&] { e.transports[0].make_lane(1024); }), "lane 1024 on rank 0"));
  CHECK(contains(thrown<tutti::usage_error>([&] { e.transports[0].make_lane(-1); }), "lane -1 on rank 0"));
}
