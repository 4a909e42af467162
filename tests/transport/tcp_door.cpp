// SPDX-License-Identifier: BSL-1.0

// Data connections: made on first use, one for each pair, whoever begins; and what is in their way.

#include <tutti/transport/tcp/door.hpp>

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
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
  explicit house(int size, const tcp_settings& settings = {}, std::chrono::milliseconds limit = 600s) {
    listening_socket listener;
    job = job_of(size, listener.master);
    ranks_.start_all(job, listener, settings);
    ranks_.all_well();
    job.start_timeout = limit;
    for (int rank = 0; rank < size; ++rank) {
      met_rank& met = ranks_.ranks()[static_cast<std::size_t>(rank)];
      keepers_.emplace_back(rank_of(job, rank), std::move(met.membership[0]), met.io, settings);
    }
  }
  void start() {
    for (doorkeeper& keeper : keepers_) keeper.start();
  }
  doorkeeper& operator[](int rank) { return keepers_[static_cast<std::size_t>(rank)]; }
  tcp_options job;

 private:
  ranks_meeting ranks_;
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
  const int before = open_descriptors();
  h[1].door().connect(3);
  check_connected(h[1], 1, h[3], 3);
  h[2].door().connect(0);
  check_connected(h[2], 2, h[0], 0);
  h[0].door().connect(3);
  check_connected(h[0], 0, h[3], 3);
  CHECK(open_descriptors() == before + 6);
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
  constexpr int size = 24;
  house h(size);
  for (int rank = 0; rank < size; ++rank)
    for (int times = 0; times < 2; ++times)
      for (int peer = 0; peer < size; ++peer) h[rank].door().connect(peer);
  h.start();
  for (int a = 0; a < size; ++a)
    for (int b = 0; b < a; ++b) check_connected(h[a], a, h[b], b);
  for (int rank = 0; rank < size; ++rank) {
    h[rank].stop();
    CHECK_FALSE(h[rank].twice);
    CHECK_FALSE(h[rank].sockets[static_cast<std::size_t>(rank)].has_value());
    CHECK(h[rank].door().strangers() == 0);
  }
}
