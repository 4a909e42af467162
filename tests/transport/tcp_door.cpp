// SPDX-License-Identifier: BSL-1.0

// Data connections: made on first use, one for each pair, whoever begins; and what is in their way.

#include <tutti/transport/tcp/door.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_start.hpp"

using namespace test;
using namespace std::chrono_literals;
using kinds = tcp_answer::kinds;
using tutti::detail::tcp_door;

namespace {

/// One rank of a job that has met: its door, and the thread that serves it.
class doorkeeper {
 public:
  doorkeeper(const tcp_options& options, tcp_membership met, asio::io_context& io, const tcp_settings& settings = {})
      : sockets(met.members.size()),
        why(met.members.size()),
        io_(io),
        membership_(std::move(met)),
        door_(io, options, membership_, *this, settings),
        work_(io.get_executor()) {}
  ~doorkeeper() { stop(); }
  void start() {
    door_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  /// The door is closed on its thread, and then the thread ends.
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      door_.close();
      work_.reset();
    });
    thread_.join();
  }
  tcp_door<doorkeeper>& door() { return door_; }
  tcp_membership& membership() { return membership_; }
  /// Waits for something to be so that the thread changes.
  template <class Condition>
  void await(Condition&& so) {
    for (int seen = news.load(); !so(); seen = news.load()) news.wait(seen);
  }
  void await_connection(int peer) {
    await([&] { return established_[static_cast<std::size_t>(peer)].load(); });
  }
  void await_failure(int peer) {
    await([&] { return failed_[static_cast<std::size_t>(peer)].load(); });
  }
  asio::ip::tcp::socket& socket(int peer) { return *sockets[static_cast<std::size_t>(peer)]; }

  // What the door calls.
  void established(int peer, asio::ip::tcp::socket&& socket) {
    const auto i = static_cast<std::size_t>(peer);
    twice = twice || sockets[i];
    sockets[i].emplace(std::move(socket));
    established_[i] = true;
    tell();
  }
  void cannot_connect(int peer, const std::string& text) {
    why[static_cast<std::size_t>(peer)] = text;
    failed_[static_cast<std::size_t>(peer)] = true;
    tell();
  }

  std::vector<std::optional<asio::ip::tcp::socket>> sockets;
  std::vector<std::string> why;
  std::atomic<int> news{0};
  bool twice = false;

 private:
  void tell() {
    news.fetch_add(1);
    news.notify_all();
  }

  asio::io_context& io_;
  tcp_membership membership_;
  tcp_door<doorkeeper> door_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
  std::array<std::atomic<bool>, 64> established_{};
  std::array<std::atomic<bool>, 64> failed_{};
};

/// All ranks of a job that has met.
class house {
 public:
  explicit house(int size, const tcp_settings& settings = {}, std::chrono::milliseconds limit = 600s) : meeting_(size) {
    meeting_.start_all(settings);
    meeting_.all_well();
    job = meeting_.job;
    job.start_timeout = limit;
    for (int rank = 0; rank < size; ++rank) {
      met_rank& met = meeting_.ranks()[static_cast<std::size_t>(rank)];
      keepers_.emplace_back(rank_of(job, rank), std::move(met.membership[0]), met.io, settings);
    }
  }
  void start() {
    for (doorkeeper& keeper : keepers_) keeper.start();
  }
  doorkeeper& operator[](int rank) { return keepers_[static_cast<std::size_t>(rank)]; }
  tcp_options job;

 private:
  meeting meeting_;
  std::deque<doorkeeper> keepers_;
};

/// Both ends are of the same connection, which is ready to be used.
void check_connected(doorkeeper& a, int rank_a, doorkeeper& b, int rank_b) {
  a.await_connection(rank_b);
  b.await_connection(rank_a);
  asio::ip::tcp::socket& from = a.socket(rank_b);
  asio::ip::tcp::socket& to = b.socket(rank_a);
  CHECK(from.local_endpoint() == to.remote_endpoint());
  CHECK(from.remote_endpoint() == to.local_endpoint());
  CHECK(from.non_blocking());
  CHECK(to.non_blocking());
}

}  // namespace

TEST_CASE("a connection is made on first use, in either direction") {
  const deadline limit(30s);
  const no_leak descriptors;
  house h(4);
  h.start();
  const int before = open_sockets();
  h[1].door().connect(3);
  check_connected(h[1], 1, h[3], 3);
  h[2].door().connect(0);
  check_connected(h[2], 2, h[0], 0);
  h[0].door().connect(3);
  check_connected(h[0], 0, h[3], 3);
  CHECK(open_sockets() == before + 6);
  asio::ip::tcp::no_delay no_delay;
  h[0].socket(3).get_option(no_delay);
  CHECK(no_delay.value());
  h[3].socket(0).get_option(no_delay);
  CHECK(no_delay.value());
  for (int rank = 0; rank < 4; ++rank) {
    h[rank].stop();
    CHECK_FALSE(h[rank].twice);
    CHECK(h[rank].door().strangers() == 0);
  }
}

TEST_CASE("C12: all ranks connect to all at the same time, and each pair has one connection") {
  const deadline limit(60s);
  const no_leak descriptors;
  constexpr int size = 16;
  house h(size);
  for (int rank = 0; rank < size; ++rank)
    for (int times = 0; times < 2; ++times)
      for (int peer = -1; peer <= size; ++peer) h[rank].door().connect(peer);
  h.start();
  for (int a = 0; a < size; ++a)
    for (int b = 0; b < a; ++b) check_connected(h[a], a, h[b], b);
  for (int rank = 0; rank < size; ++rank) {
    h[rank].stop();
    CHECK_FALSE(h[rank].twice);
    CHECK_FALSE(h[rank].sockets[static_cast<std::size_t>(rank)].has_value());
  }
}

TEST_CASE("C12: pairs connect from both sides at the same time, a thousand times") {
  const deadline limit(60s);
  const no_leak descriptors;
  const int most = sanitized ? 60 : 334;
  for (int times = 0; times < most; ++times) {
    house h(3);
    h.start();
    for (int rank = 0; rank < 3; ++rank)
      for (int peer = 0; peer < 3; ++peer) h[rank].door().connect(peer);
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < a; ++b) check_connected(h[a], a, h[b], b);
    for (int rank = 0; rank < 3; ++rank) {
      h[rank].stop();
      CHECK_FALSE(h[rank].twice);
    }
  }
}

namespace {

/// One rank of two, whose peer is played by the test: it listens where that rank is expected, and says what it wants.
class played_peer {
 public:
  played_peer(int rank, const tcp_settings& settings = {}, std::chrono::milliseconds limit = 600s)
      : rank_(rank), peer_(1 - rank) {
    job = job_of(2, "127.0.0.1:1");
    job.start_timeout = limit;
    tcp_membership met{{}, std::vector<tcp_member>(2), {}, tutti::detail::tcp_listener(io_)};
    session.fill(std::byte{7});
    met.session = session;
    asio::error_code wrong;
    met.listener.open({asio::ip::make_address("127.0.0.1"), 0}, 64, wrong);
    REQUIRE_FALSE(wrong);
    master = tutti::detail::endpoint_text(met.listener.local_endpoint());
    met.members[static_cast<std::size_t>(rank)].endpoint = met.listener.local_endpoint();
    met.members[static_cast<std::size_t>(peer_)].endpoint = {asio::ip::make_address("127.0.0.1"),
                                                             static_cast<asio::ip::port_type>(listener.port)};
    keeper.emplace(rank_of(job, rank), std::move(met), io_, settings);
  }
  /// The connection that the door makes, once its hello has come.
  descriptor_owner take() const {
    descriptor_owner taken(accept(listener.socket.get(), nullptr, nullptr));
    REQUIRE(taken);
    std::array<std::byte, tcp_hello::bytes> frame{};
    REQUIRE(recv(taken.get(), frame.data(), frame.size(), MSG_WAITALL) == 256);
    const tcp_hello hello = tcp_hello::decode(frame.data());
    CHECK(hello.kind == tcp_hello::kinds::data);
    CHECK(hello.rank == rank_);
    CHECK(hello.to == peer_);
    CHECK(hello.session == session);
    return taken;
  }
  tcp_hello hello() const {
    tcp_hello h = hello_of(job, peer_);
    h.kind = tcp_hello::kinds::data;
    h.to = rank_;
    h.session = session;
    return h;
  }
  bool say(int descriptor, kinds kind) const {
    const auto frame = tcp_answer(kind, tutti::detail::tcp_credentials::of(job.job, job.token)).encode();
    return send(descriptor, frame.data(), frame.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(frame.size());
  }
  static kinds hear(int descriptor) {
    std::array<std::byte, tcp_answer::bytes> frame{};
    if (recv(descriptor, frame.data(), frame.size(), MSG_WAITALL) != static_cast<ssize_t>(frame.size())) return {};
    return tcp_answer::decode(frame.data()).kind;
  }
  static bool closed(int descriptor) {
    char byte = 0;
    return recv(descriptor, &byte, 1, 0) <= 0;
  }
  listening_socket listener;
  tcp_options job;
  std::array<std::byte, 16> session{};
  std::string master;  // where the door is

 private:
  int rank_;
  int peer_;
  asio::io_context io_;

 public:
  std::optional<doorkeeper> keeper;
};

}  // namespace

TEST_CASE("C12: the lower rank tells the other to yield while its own hello is on the way") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(0);
  p.keeper->start();
  p.keeper->door().connect(1);
  const descriptor_owner theirs = p.take();
  {
    const raw_connection mine(p.master);
    REQUIRE(mine.say(p.hello()));
    CHECK(mine.hear().kind == kinds::yield);
    CHECK(mine.closed());
  }
  REQUIRE(p.say(theirs.get(), kinds::accepted));
  CHECK(p.hear(theirs.get()) == kinds::accepted);
  p.keeper->await_connection(1);
  const raw_connection again(p.master);  // there is one already
  REQUIRE(again.say(p.hello()));
  CHECK(again.hear().kind == kinds::yield);
  p.keeper->stop();
  CHECK_FALSE(p.keeper->twice);
}

TEST_CASE("C12: the higher rank takes the other's connection in place of its own") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(1);
  p.keeper->start();
  p.keeper->door().connect(0);
  const descriptor_owner theirs = p.take();
  const raw_connection mine(p.master);
  REQUIRE(mine.say(p.hello()));
  CHECK(mine.hear().kind == kinds::accepted);
  CHECK(p.closed(theirs.get()));
  REQUIRE(p.say(mine.descriptor(), kinds::accepted));
  REQUIRE(mine.say("data", 4));  // what follows is left to be read
  p.keeper->await_connection(0);
  p.keeper->stop();
  CHECK_FALSE(p.keeper->twice);
  char data[8] = {};
  pollfd one{p.keeper->socket(0).native_handle(), POLLIN, 0};
  REQUIRE(poll(&one, 1, -1) == 1);
  CHECK(recv(one.fd, data, sizeof data, 0) == 4);
  CHECK(std::string(data) == "data");
}

TEST_CASE("C12: an attempt that its maker gives up counts for nothing, and this rank tries itself") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(1);
  p.keeper->start();
  p.keeper->door().connect(0);
  {
    const descriptor_owner theirs = p.take();
    const raw_connection mine(p.master);
    REQUIRE(mine.say(p.hello()));
    REQUIRE(mine.hear().kind == kinds::accepted);
    CHECK(p.closed(theirs.get()));
  }
  const descriptor_owner second = p.take();
  REQUIRE(p.say(second.get(), kinds::accepted));
  CHECK(p.hear(second.get()) == kinds::accepted);
  p.keeper->await_connection(0);
  p.keeper->stop();
  CHECK_FALSE(p.keeper->twice);
}

TEST_CASE("C12: a second attempt takes the place of one that was accepted and not confirmed") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(1);
  p.keeper->start();
  const raw_connection first(p.master);
  REQUIRE(first.say(p.hello()));
  REQUIRE(first.hear().kind == kinds::accepted);
  const raw_connection second(p.master);
  REQUIRE(second.say(p.hello()));
  REQUIRE(second.hear().kind == kinds::accepted);
  CHECK(first.closed());
  REQUIRE(p.say(second.descriptor(), kinds::accepted));
  p.keeper->await_connection(0);
  p.keeper->stop();
}

TEST_CASE("C12: who was told to yield waits for the other, and asks again") {
  const deadline limit(30s);
  const no_leak descriptors;
  for (const bool comes : {true, false}) {
    played_peer p(1);
    p.keeper->start();
    p.keeper->door().connect(0);
    {
      const descriptor_owner theirs = p.take();
      REQUIRE(p.say(theirs.get(), kinds::yield));
      CHECK(p.closed(theirs.get()));
    }
    const raw_connection mine(p.master);
    if (comes) {
      REQUIRE(mine.say(p.hello()));
      REQUIRE(mine.hear().kind == kinds::accepted);
      REQUIRE(p.say(mine.descriptor(), kinds::accepted));
    } else {
      const descriptor_owner again = p.take();
      REQUIRE(p.say(again.get(), kinds::accepted));
      REQUIRE(p.hear(again.get()) == kinds::accepted);
    }
    p.keeper->await_connection(0);
    p.keeper->stop();
  }
}

TEST_CASE("C5: an attempt that is reset, or not answered, is made again") {
  const deadline limit(30s);
  const no_leak descriptors;
  tcp_settings settings;
  settings.patience = 5ms;
  played_peer p(0, settings);
  p.keeper->start();
  p.keeper->door().connect(1);
  {
    const descriptor_owner reset = p.take();
    const struct linger at_once = {1, 0};
    setsockopt(reset.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  {
    const descriptor_owner garbage = p.take();
    const std::string bytes(tcp_answer::bytes, 'x');
    REQUIRE(send(garbage.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == 64);
    CHECK(p.closed(garbage.get()));
  }
  {
    const descriptor_owner silent = p.take();
    CHECK(p.closed(silent.get()));
  }
  for (bool taken = false; !taken;) {
    const descriptor_owner good = p.take();
    taken = p.say(good.get(), kinds::accepted) && p.hear(good.get()) == kinds::accepted;
  }
  p.keeper->await_connection(1);
  p.keeper->stop();
}

TEST_CASE("a connection that cannot be made is told with its address and why, and may be wanted again") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(0, {}, 200ms);
  const std::string there = p.listener.master;
  p.listener.socket.reset();
  p.keeper->start();
  p.keeper->door().connect(1);
  p.keeper->await_failure(1);
  CHECK(p.keeper->why[1] ==
        "tcp, rank 0 of 2: no connection to rank 1 at " + there + " for 200 ms: Connection refused");
  const raw_connection mine(p.master);  // that rank may still come
  REQUIRE(mine.say(p.hello()));
  REQUIRE(mine.hear().kind == kinds::accepted);
  REQUIRE(p.say(mine.descriptor(), kinds::accepted));
  p.keeper->await_connection(1);
  p.keeper->stop();
}

// A sanitizer needs descriptors to look at what lies in memory, and takes it for wrong if it cannot.
TEST_CASE("E9: a rank that has no descriptor left names the limit" * doctest::skip(sanitized)) {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(0, {}, 200ms);
  p.keeper->start();
  std::optional<no_more_descriptors> none;
  none.emplace();
  const std::string text = none->text();
  p.keeper->door().connect(1);
  p.keeper->await_failure(1);
  none.reset();
  CHECK(p.keeper->why[1] ==
        "tcp, rank 0 of 2: no connection to rank 1 at " + p.listener.master + " for 200 ms: " + text);
  p.keeper->stop();
}

TEST_CASE("C7: an own address is never taken for that of a rank on another host") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(0);
  p.keeper->membership().members[1].network = 99;
  p.keeper->start();
  p.keeper->door().connect(1);
  p.keeper->await_failure(1);
  CHECK(p.keeper->why[1] == "tcp, rank 0 of 2: no connection to rank 1 at " + p.listener.master +
                                ": that is an address of this host too; give that rank another one (TUTTI_ADDRESS, "
                                "TUTTI_INTERFACE)");
  p.keeper->stop();
  CHECK(fcntl(p.listener.socket.get(), F_SETFL, O_NONBLOCK) == 0);
  CHECK(accept(p.listener.socket.get(), nullptr, nullptr) < 0);
}

TEST_CASE("C4: a data connection of another start, or that means another rank, is dropped and counted") {
  const deadline limit(30s);
  const no_leak descriptors;
  played_peer p(1);
  p.keeper->start();
  std::vector<tcp_hello> wrong(8, p.hello());
  wrong[0].session[0] ^= std::byte{1};
  wrong[1].session[15] ^= std::byte{0x80};
  wrong[2].to = 0;
  wrong[3].rank = 1;
  wrong[4].rank = 2;
  wrong[5].rank = -1;
  wrong[6].version += 1;
  wrong[7].kind = static_cast<tcp_hello::kinds>(3);
  for (const tcp_hello& hello : wrong) {
    const raw_connection stranger(p.master);
    REQUIRE(stranger.say(hello));
    CHECK(stranger.closed());
  }
  CHECK(p.keeper->door().strangers() == wrong.size());
  p.keeper->stop();
  CHECK_FALSE(p.keeper->sockets[0].has_value());
}

TEST_CASE("C12: a rank that comes when all have come is told so") {
  const deadline limit(30s);
  const no_leak descriptors;
  house h(3);
  h.start();
  tcp_options late = rank_of(h.job, 2);
  late.start_timeout = 600s;
  asio::io_context io;
  const outcome ended = outcome_of([&] { tutti::detail::tcp_meet(io, late); });
  CHECK(ended.kind == "mismatch");
  CHECK(contains(ended.text, "tcp start: rank 2 (127.0.0.1:"));
  CHECK(contains(ended.text, ") comes when all 3 ranks have come"));
  h[0].stop();
  CHECK(h[0].door().strangers() == 1);
}

TEST_CASE("E6: a door may be closed between any two steps") {
  const deadline limit(60s);
  const no_leak descriptors;
  int steps = 0;
  for (bool ended = false; !ended; ++steps) {
    asio::io_context io;
    tcp_options job = job_of(2, "127.0.0.1:1");
    std::deque<doorkeeper> keepers;
    std::vector<tcp_member> members(2);
    std::vector<tutti::detail::tcp_listener> listeners;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      asio::error_code wrong;
      listeners.emplace_back(io);
      listeners.back().open({asio::ip::make_address("127.0.0.1"), 0}, 64, wrong);
      REQUIRE_FALSE(wrong);
      members[rank].endpoint = listeners.back().local_endpoint();
    }
    for (int rank = 0; rank < 2; ++rank)
      keepers.emplace_back(rank_of(job, rank),
                           tcp_membership{{}, members, {}, std::move(listeners[static_cast<std::size_t>(rank)])}, io);
    for (int rank = 0; rank < 2; ++rank) {
      keepers[static_cast<std::size_t>(rank)].door().start();
      keepers[static_cast<std::size_t>(rank)].door().connect(1 - rank);
    }
    int done = 0;
    while (done < steps && !(keepers[0].sockets[1] && keepers[1].sockets[0])) {
      io.run_one();
      ++done;
    }
    ended = done < steps;
    keepers[1].door().close();
    const bool before = keepers[1].sockets[0].has_value();
    for (int i = 0; i < 3; ++i) io.poll_one();
    CHECK(keepers[1].sockets[0].has_value() == before);  // nothing is called after that
    keepers.clear();
    io.restart();
    io.poll();
  }
  CHECK(steps > 10);
}
