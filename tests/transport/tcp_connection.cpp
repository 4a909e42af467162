// SPDX-License-Identifier: BSL-1.0

// One data connection, whose other end the test holds: what stands on the wire, frames in all portions, lanes that
// nobody waits for, and what goes wrong.

#include <tutti/transport/tcp/connection.hpp>

#include "counted_new.hpp"
#include "transport/tcp_data.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace test;
using tutti::detail::tcp_connection;
using tutti::detail::tcp_frame_kind;
using tutti::detail::tcp_header;

namespace {

using bytes = std::vector<std::byte>;

bytes payload(std::size_t size, unsigned seed) {
  bytes made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>((i * 7 + i / 251 + seed * 31 + 1) & 0xFF);
  return made;
}

bytes frame(const tcp_header& header, const bytes& content = {}) {
  bytes made(tcp_header::size + content.size());
  encode(header, made.data());
  std::copy(content.begin(), content.end(), made.begin() + tcp_header::size);
  return made;
}
bytes frame(std::uint32_t lane, const bytes& content, std::uint64_t fingerprint = 5) {
  return frame({content.size(), fingerprint, lane, tcp_frame_kind::message}, content);
}

/// A connection, and the other end of it in the hands of the test.
struct tested {
  explicit tested(bool loopback = false, int buffer = 0, std::size_t call_bytes = std::size_t{1} << 30) {
    auto [one, two] = connected_pair(loopback, buffer);
    tutti::detail::tcp_tuning tuning;
    tuning.call_bytes = call_bytes;
    connection.tune(tuning);
    connection.establish(std::move(one));
    other = std::move(two);
  }

  /// Writes as much as there is room for: the bytes written.
  std::size_t write_some(const std::byte* from, std::size_t size) {
    const ssize_t n = ::send(other.get(), from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  void write(const bytes& all) { REQUIRE(write_some(all.data(), all.size()) == all.size()); }
  /// What has come to the other end, at most so much.
  bytes read_some(std::size_t most = std::size_t{1} << 20) {
    bytes got(most);
    const ssize_t n = ::recv(other.get(), got.data(), most, MSG_DONTWAIT);
    got.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return got;
  }
  /// Reads so many bytes, while the connection writes them.
  bytes read_all(std::size_t size, std::size_t portion = std::size_t{1} << 20) {
    bytes all;
    while (all.size() < size) {
      const bytes part = read_some(std::min(portion, size - all.size()));
      all.insert(all.end(), part.begin(), part.end());
      connection.flush();
    }
    return all;
  }

  tcp_connection connection;
  descriptor_owner other;
};

bool send(tcp_connection& c, std::uint32_t lane, const bytes& content, bool copy = false) {
  return c.send(lane, 5, content.data(), content.size(), copy);
}

/// A receive on a lane: its memory, poisoned, and a guard behind it.
struct receive {
  receive(tcp_connection& c, std::uint32_t l, const bytes& e) : lane(l), expected(e), memory(e.size() + 8, poison) {
    c.ask(lane, memory.data(), expected.size(), 5);
  }
  bool done(tcp_connection& c) {
    if (!c.look(lane)) return false;
    REQUIRE_FALSE(c.end_of(lane).refused);
    REQUIRE(std::equal(expected.begin(), expected.end(), memory.begin()));
    REQUIRE(std::all_of(memory.end() - 8, memory.end(), [](std::byte b) { return b == poison; }));
    c.take(lane);
    return true;
  }
  static constexpr std::byte poison{0xA5};
  std::uint32_t lane;
  bytes expected;
  bytes memory;
};

constexpr std::array<std::size_t, 8> sizes{0, 1, 8, 999, 1024, 1025, 16'384 - tcp_header::size, 40'001};

}  // namespace

TEST_CASE("a message is its header and its payload on the wire") {
  for (const bool copy : {false, true}) {
    for (const std::size_t size : sizes) {
      CAPTURE(size);
      tested t;
      const bytes content = payload(size, 3);
      CHECK(send(t.connection, 9, content, copy));
      CHECK(t.connection.sent(9));
      CHECK(t.read_some() == frame(9, content));
    }
  }
}

TEST_CASE("writes may stop after any byte") {
  for (const std::size_t call : {std::size_t{1}, std::size_t{7}, std::size_t{4095}}) {
    for (const std::size_t size : sizes) {
      if (size > 10'000 * call) continue;
      tested t(false, 4096, call);
      const bytes first = payload(size, 1);
      const bytes second = payload(2 * size + 5, 2);
      send(t.connection, 0, first);
      send(t.connection, 1, second);
      bytes expected = frame(0, first);
      const bytes more = frame(1, second);
      expected.insert(expected.end(), more.begin(), more.end());
      CHECK(t.read_all(expected.size(), 1 + call / 3) == expected);
      CHECK(t.connection.flush());
    }
  }
}

TEST_CASE("what there is no room for is copied if that was asked for, else it stays the sender's until it is sent") {
  tested t(false, 4096);
  const bytes large = payload(1 << 20, 1);
  CHECK_FALSE(send(t.connection, 0, large));
  CHECK_FALSE(t.connection.sent(0));
  CHECK(t.connection.wants_to_write());
  bytes small = payload(700, 2);
  CHECK(send(t.connection, 1, small, true));
  bytes expected = frame(0, large);
  const bytes more = frame(1, small);
  expected.insert(expected.end(), more.begin(), more.end());
  std::fill(small.begin(), small.end(), std::byte{0});  // the copy stands
  CHECK(t.read_all(expected.size()) == expected);
  CHECK(t.connection.sent(0));
  CHECK(t.connection.sent(1));
  CHECK_FALSE(t.connection.wants_to_write());
}

TEST_CASE("messages wait for a connection") {
  tcp_connection c;
  bytes one = payload(100, 1);
  const bytes two = payload(50'000, 2);
  CHECK(send(c, 0, one, true));
  CHECK_FALSE(send(c, 0, two, false));
  const bytes expected = frame(0, one);
  std::fill(one.begin(), one.end(), std::byte{0});
  CHECK_FALSE(c.established());
  CHECK_FALSE(c.flush());
  CHECK_FALSE(c.wants_to_write());
  auto [here, there] = connected_pair(false);
  c.establish(std::move(here));
  CHECK(c.flush());
  bytes got(expected.size());
  REQUIRE(::recv(there.get(), got.data(), got.size(), MSG_WAITALL) == static_cast<ssize_t>(got.size()));
  CHECK(got == expected);
}

TEST_CASE("a socket to the same host is not paced, and bounded where ranks share processors; others are left alone") {
  using tutti::detail::socket_is_local, tutti::detail::tune_local_socket;
  const auto queue = [](int socket) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    checked(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &size), "SO_SNDBUF");
    return bytes;
  };
  const auto control = [](int socket) {
    char name[16] = {};
    socklen_t size = sizeof name;
    checked(getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size), "TCP_CONGESTION");
    return std::string(name);
  };
  bool may_choose = false;
  {
    const auto [free, free_too] = connected_pair(true);
    may_choose = ::setsockopt(free.get(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0;
  }
  int most = 0;  // that the system grants
  std::ifstream("/proc/sys/net/core/wmem_max") >> most;
  REQUIRE(most > 0);
  for (const int ranks : {2, 4}) {
    auto [local, local_too] = connected_pair(true);
    CHECK(socket_is_local(local.get()));
    const int before = queue(local.get());
    tcp_connection c;
    c.tune(tutti::detail::tcp_tuning::for_host(ranks, 2, std::chrono::microseconds(-1)));
    c.establish(std::move(local));
    CHECK(queue(c.descriptor()) == (ranks > 2 ? 2 * std::min(most, 384 << 10) : before));
    CHECK((control(c.descriptor()) == "reno") == may_choose);
  }
  const auto [nameless, nameless_too] = connected_pair(false);
  CHECK_FALSE(socket_is_local(nameless.get()));

  // From one address to another, as between hosts.
  const auto made = [] {
    return tutti::detail::descriptor_owner(checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  };
  const auto listener = made(), remote = made();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  checked(bind(remote.get(), name, length), "bind");
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  checked(bind(listener.get(), name, length), "bind");
  checked(listen(listener.get(), 1), "listen");
  checked(getsockname(listener.get(), name, &length), "getsockname");
  checked(connect(remote.get(), name, length), "connect");
  const int grown = queue(remote.get());
  const std::string chosen = control(remote.get());
  CHECK_FALSE(socket_is_local(remote.get()));
  tune_local_socket(remote.get(), 32 << 10);
  CHECK(queue(remote.get()) == grown);
  CHECK(control(remote.get()) == chosen);
}

TEST_CASE("messages of several lanes arrive in every order of asking, in every portion") {
  std::mt19937 random(1);
  const auto upto = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random); };
  for (const std::size_t call : {std::size_t{1}, std::size_t{7}, std::size_t{4095}, std::size_t{1} << 30}) {
    for (int turn = 0; turn < 12; ++turn) {
      tested t(turn % 2 == 0, turn % 3 == 0 ? 4096 : 0, call);
      // Frames of lanes 0 to 3, now and then large.
      bytes stream;
      std::map<std::uint32_t, std::vector<bytes>> to_come;
      std::size_t messages = 0;
      for (; messages < 30; ++messages) {
        const auto lane = static_cast<std::uint32_t>(upto(3));
        const bytes content = payload(upto(4) == 0 ? upto(20'000) : upto(100), static_cast<unsigned>(messages));
        const bytes whole = frame(lane, content);
        stream.insert(stream.end(), whole.begin(), whole.end());
        to_come[lane].insert(to_come[lane].begin(), content);
      }
      std::map<std::uint32_t, receive> asked;
      std::size_t written = 0;
      while (messages != 0) {
        written += t.write_some(stream.data() + written, std::min(stream.size() - written, upto(20'000)));
        const auto lane = static_cast<std::uint32_t>(upto(3));
        if (auto it = asked.find(lane); it != asked.end()) {
          if (!it->second.done(t.connection)) continue;
          asked.erase(it);
          --messages;
        } else if (!to_come[lane].empty()) {
          asked.try_emplace(lane, t.connection, lane, to_come[lane].back());
          to_come[lane].pop_back();
        }
      }
      CHECK_FALSE(t.connection.has_arrived());
      CHECK_FALSE(t.connection.has_read());
      CHECK_FALSE(t.connection.broken());
    }
  }
}

TEST_CASE("what was read to the place of another message is moved to where it belongs") {
  tested t;
  const bytes large = payload(60'000, 1);
  const bytes other = payload(20'000, 2);
  bytes stream = frame(3, payload(500, 3));
  for (const bytes& part : {frame({0, 0, 7, tcp_frame_kind::pause}), frame(1, other), frame(0, large),
                            frame(0, payload(30, 4)), frame(2, payload(9, 5))})
    stream.insert(stream.end(), part.begin(), part.end());
  t.write(stream);
  receive one(t.connection, 1, other);
  receive zero(t.connection, 0, large);
  CHECK(zero.done(t.connection));
  CHECK(one.done(t.connection));
  for (const auto& [lane, expected] : {std::pair{0U, payload(30, 4)}, {2U, payload(9, 5)}, {3U, payload(500, 3)}}) {
    receive rest(t.connection, lane, expected);
    CHECK(rest.done(t.connection));
  }
  send(t.connection, 7, payload(10, 1));
  CHECK_FALSE(t.connection.sent(7));  // held
}

TEST_CASE("a peer that sends what nobody takes is asked to pause, and to resume when it is taken") {
  tested t;
  const bytes content = payload(100'000, 1);
  receive awaited(t.connection, 0, payload(10, 2));
  for (int i = 0; i < 5; ++i) {
    t.write(frame(4, content));
    CHECK_FALSE(awaited.done(t.connection));
  }
  CHECK(t.read_some().empty());
  t.write(frame(4, content));
  for (int look = 0; look < 3; ++look) CHECK_FALSE(awaited.done(t.connection));
  CHECK(t.read_some() == frame({0, 0, 4, tcp_frame_kind::pause}));
  for (int i = 0; i < 6; ++i) {
    CHECK(t.read_some().empty());
    receive late(t.connection, 4, content);
    if (i == 3) CHECK(t.read_some() == frame({0, 0, 4, tcp_frame_kind::resume}));  // at once
    CHECK(late.done(t.connection));
  }
  t.write(frame(0, payload(10, 2)));
  CHECK(awaited.done(t.connection));
}

TEST_CASE("pause and resume that could not be written at once are written in their order, before other messages") {
  tested t(false, 4096);
  const bytes large = payload(200'000, 1);
  const bytes waits = payload(100, 2);
  send(t.connection, 0, large);
  send(t.connection, 1, waits);
  const bytes content = payload(600'000, 3);
  const bytes unexpected = frame(4, content);
  receive awaited(t.connection, 9, payload(1, 1));
  for (std::size_t written = 0; written < unexpected.size();) {
    written += t.write_some(unexpected.data() + written, unexpected.size() - written);
    awaited.done(t.connection);
  }
  awaited.done(t.connection);
  receive late(t.connection, 4, content);
  CHECK(late.done(t.connection));
  bytes expected = frame(0, large);
  for (const bytes& part :
       {frame({0, 0, 4, tcp_frame_kind::pause}), frame({0, 0, 4, tcp_frame_kind::resume}), frame(1, waits)})
    expected.insert(expected.end(), part.begin(), part.end());
  CHECK(t.read_all(expected.size()) == expected);
}

TEST_CASE("the messages of a lane that was asked to pause are kept back until it may go on; others pass them") {
  tested t;
  t.write(frame({0, 0, 4, tcp_frame_kind::pause}));
  receive awaited(t.connection, 0, {});
  CHECK_FALSE(awaited.done(t.connection));
  const bytes held = payload(300, 1);
  const bytes free = payload(40, 2);
  CHECK(send(t.connection, 4, held, true));
  send(t.connection, 4, free);
  send(t.connection, 5, free);
  t.connection.flush();
  CHECK(t.connection.sent(5));
  CHECK(t.read_all(frame(5, free).size()) == frame(5, free));
  CHECK_FALSE(t.connection.flush());
  CHECK_FALSE(t.connection.wants_to_write());
  CHECK(t.connection.wants_to_read());
  CHECK(t.read_some().empty());
  t.write(frame({0, 0, 4, tcp_frame_kind::resume}));
  t.connection.advance();
  t.connection.advance();
  CHECK(t.connection.sent(4));
  bytes expected = frame(4, held);
  const bytes more = frame(4, free);
  expected.insert(expected.end(), more.begin(), more.end());
  CHECK(t.read_some() == expected);
}

TEST_CASE("who only sends still learns that it is to pause") {
  tested t;
  t.write(frame({0, 0, 4, tcp_frame_kind::pause}));
  const bytes content = payload(64 * 1024, 1);
  std::size_t sent = 0;
  for (; send(t.connection, 4, content); ++sent) {
    REQUIRE(sent < 1000);
    t.read_all(frame(4, content).size());
  }
  CHECK(sent == 128);  // 8 MiB with their headers
}

TEST_CASE("another message than the one asked for is refused, with its header, and left where it is") {
  for (const bool before : {false, true}) {
    for (const tcp_header& came :
         {tcp_header{99, 5, 0, tcp_frame_kind::message}, tcp_header{100, 6, 0, tcp_frame_kind::message}}) {
      tested t;
      const bytes sent = frame(came, payload(static_cast<std::size_t>(came.bytes), 1));
      receive first(t.connection, 1, payload(1, 1));
      if (before) {
        t.write(sent);
        CHECK_FALSE(first.done(t.connection));
      }
      bytes memory(100, std::byte{0xA5});
      t.connection.ask(0, memory.data(), memory.size(), 5);
      if (!before) {
        CHECK_FALSE(t.connection.look(0));
        t.write(sent);
      }
      REQUIRE(t.connection.look(0));
      CHECK(t.connection.end_of(0).refused);
      CHECK(t.connection.end_of(0).came == came);
      CHECK(memory == bytes(100, std::byte{0xA5}));
    }
  }
}

TEST_CASE("headers that make no sense end the reading, and cost no memory") {
  for (const tcp_header& header :
       {tcp_header{0, 0, 0, static_cast<tcp_frame_kind>(0)}, tcp_header{8, 5, 5000, tcp_frame_kind::message},
        tcp_header{UINT64_MAX, 5, 0, tcp_frame_kind::message}, tcp_header{1, 0, 0, tcp_frame_kind::pause}}) {
    tested t;
    receive awaited(t.connection, 0, payload(8, 1));
    t.write(frame(header, payload(8, 1)));
    CHECK_FALSE(awaited.done(t.connection));
    CHECK(t.connection.corrupt());
    CHECK(t.connection.broken());
    CHECK(t.connection.last_header() == header);
    CHECK_FALSE(t.connection.wants_to_read());
    t.write(frame(0, payload(8, 1)));
    CHECK_FALSE(awaited.done(t.connection));
  }
  // The largest there may be: only what comes of it takes memory.
  tested t;
  receive awaited(t.connection, 0, payload(8, 1));
  t.write(frame({tcp_header::largest_payload, 5, 1, tcp_frame_kind::message}, payload(1000, 1)));
  CHECK_FALSE(awaited.done(t.connection));
  CHECK_FALSE(t.connection.broken());
  CHECK(t.connection.end_of(1).kept.size() == tcp_header::size + 1000);
}

TEST_CASE("the end of the connection is told apart: between messages, in one, and by an error") {
  {
    tested t;
    receive awaited(t.connection, 0, payload(8, 1));
    t.write(frame(0, payload(8, 1)));
    t.other.reset();
    CHECK(awaited.done(t.connection));  // what was sent before comes first
    receive another(t.connection, 0, payload(8, 1));
    CHECK_FALSE(another.done(t.connection));
    CHECK(t.connection.ended());
    CHECK(t.connection.what() == "it ended the connection");
    CHECK(t.connection.tell());
    CHECK_FALSE(t.connection.tell());
  }
  for (const std::size_t cut : {std::size_t{1}, tcp_header::size - 1, tcp_header::size, std::size_t{100}}) {
    tested t;
    receive awaited(t.connection, 0, payload(90'000, 1));
    bytes part = frame(0, payload(90'000, 1));
    part.resize(cut);
    t.write(part);
    t.other.reset();
    while (!t.connection.ended()) CHECK_FALSE(awaited.done(t.connection));
    CHECK(t.connection.what() == "it ended the connection in a message");
  }
  tested t(true);
  const linger now{1, 0};
  REQUIRE(setsockopt(t.other.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
  t.other.reset();
  receive awaited(t.connection, 0, payload(8, 1));
  while (!t.connection.ended()) CHECK_FALSE(awaited.done(t.connection));
  CHECK(t.connection.what() == "Connection reset by peer");
}

TEST_CASE("writing to a peer that has gone raises no signal, and keeps what was to be sent unsent") {
  tested t;
  t.other.reset();
  const bytes content = payload(100, 1);
  CHECK(send(t.connection, 0, content, true));
  CHECK_FALSE(t.connection.sent(0));
  CHECK(t.connection.broken());
  CHECK_FALSE(t.connection.wants_to_write());
  CHECK(t.connection.what() == "Broken pipe");
  CHECK(send(t.connection, 0, content, true));
  CHECK_FALSE(t.connection.flush());
}

TEST_CASE("an abandoned lane's memory is neither read nor written any more") {
  for (const std::size_t size : {std::size_t{100}, std::size_t{50'000}}) {
    tested t;
    receive awaited(t.connection, 0, payload(size, 1));
    const bytes all = frame(0, payload(size, 1));
    const bytes begin(all.begin(), all.begin() + 60);
    t.write(begin);
    CHECK_FALSE(awaited.done(t.connection));
    t.connection.abandon(0);
    const bytes then = awaited.memory;
    t.write({all.begin() + 60, all.end()});
    t.write(frame(1, payload(7, 1)));
    t.connection.advance();
    receive other(t.connection, 1, payload(7, 1));
    CHECK(other.done(t.connection));
    CHECK(awaited.memory == then);
  }
  // Not yet begun: other lanes go on.
  tested t;
  receive awaited(t.connection, 0, payload(10, 1));
  t.connection.abandon(0);
  receive other(t.connection, 1, payload(7, 2));
  bytes both = frame(0, payload(10, 1));
  const bytes second = frame(1, payload(7, 2));
  both.insert(both.end(), second.begin(), second.end());
  t.write(both);
  CHECK(other.done(t.connection));
  CHECK(awaited.memory == bytes(18, receive::poison));

  tested s(false, 4096);
  const bytes large = payload(100'000, 1);
  const bytes after = payload(10, 2);
  CHECK_FALSE(send(s.connection, 1, large));
  CHECK_FALSE(send(s.connection, 0, large));
  s.connection.abandon(0);  // waits its turn: lane 1 goes on
  CHECK(s.read_all(frame(1, large).size()) == frame(1, large));
  CHECK(s.connection.flush());
  CHECK_FALSE(send(s.connection, 0, large));
  s.connection.abandon(0);  // in the middle: nothing more is sent
  while (!s.read_some().empty()) CHECK_FALSE(s.connection.flush());
  CHECK(s.connection.broken());
  send(s.connection, 1, after);
  CHECK(s.read_some().empty());
}

TEST_CASE("of a lane that is withdrawn no frame is sent that has not begun, copied or not, and the others go on") {
  const bytes large = payload(100'000, 1);
  const bytes small = payload(700, 2);
  const bytes other = payload(10, 3);
  for (const bool begun : {false, true}) {
    CAPTURE(begun);
    tested t(false, 4096);
    bytes expected;
    const auto expect = [&](const bytes& one) { expected.insert(expected.end(), one.begin(), one.end()); };
    bytes first = large;
    if (!begun) CHECK_FALSE(send(t.connection, 1, large));
    CHECK_FALSE(send(t.connection, 0, first));
    CHECK(send(t.connection, 0, small, true));
    CHECK(send(t.connection, 1, other, true));
    t.connection.withdraw(0);
    std::fill(first.begin(), first.end(), std::byte{0});
    expect(frame(begun ? 0 : 1, large));
    expect(frame(1, other));
    CHECK(t.read_all(expected.size()) == expected);
    CHECK(t.connection.flush());
    CHECK(t.read_some().empty());
    CHECK(t.connection.sent(0));
    CHECK_FALSE(t.connection.broken());
  }
}

TEST_CASE("a lane is withdrawn in the middle of a message that comes in, and the others go on") {
  for (const std::size_t size : {std::size_t{100}, std::size_t{50'000}}) {
    tested t;
    receive awaited(t.connection, 0, payload(size, 1));
    const bytes all = frame(0, payload(size, 1));
    t.write({all.begin(), all.begin() + 60});
    CHECK_FALSE(awaited.done(t.connection));
    t.connection.withdraw(0);
    const bytes then = awaited.memory;
    receive other(t.connection, 1, payload(7, 1));
    t.write({all.begin() + 60, all.end()});
    t.write(frame(1, payload(7, 1)));
    CHECK(other.done(t.connection));
    CHECK_FALSE(t.connection.broken());
    CHECK(awaited.memory == then);
  }
}

TEST_CASE("where there is no memory for what comes nothing more is read, nor anything that was not") {
  if (!counting) return;
  // 600 messages that nobody has asked for, on eight lanes that pause when they are too many, then the one that is.
  bytes all;
  for (unsigned i = 0; i < 600; ++i) {
    const bytes one = frame(i % 8 + 1, payload(90 * (i % 8), i));
    all.insert(all.end(), one.begin(), one.end());
  }
  const bytes last = frame(0, payload(100, 1));
  all.insert(all.end(), last.begin(), last.end());
  bool refused_once = true;
  for (std::size_t nth = 1; refused_once; ++nth) {
    CAPTURE(nth);
    tested t(false, 1 << 20, 16'384);
    tutti::detail::tcp_tuning tuning;
    tuning.kept_bytes = 2'000;
    t.connection.tune(tuning);
    receive awaited(t.connection, 0, payload(100, 1));
    t.write(all);
    refused = nth;
    refused_once = false;
    try {
      while (!awaited.done(t.connection)) {
      }
    } catch (const std::exception&) {
      refused_once = true;
    }
    refused = 0;
    if (!refused_once) continue;
    CHECK(t.connection.ended());
    CHECK_FALSE(awaited.done(t.connection));
    t.connection.advance();
    CHECK_FALSE(t.connection.wants_to_read());
    t.connection.abandon(0);
  }
}

TEST_CASE("a connection is used by one thread while another establishes it and shuts it down") {
  wires all(2, {.on_demand = true});
  tcp_connection& c = all.group(0).connection(1);
  std::thread maker([&] { all.join(1, 0); });
  const bytes content = payload(100, 1);
  send(c, 0, content, true);
  while (!c.flush()) std::this_thread::yield();
  maker.join();
  tcp_connection& d = all.group(1).connection(0);
  receive first(d, 0, content);
  while (!first.done(d)) std::this_thread::yield();
  std::thread ender([&] { c.shut_down(); });
  receive next(d, 0, content);
  while (!d.ended()) CHECK_FALSE(next.done(d));
  ender.join();
}
