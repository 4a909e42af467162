// SPDX-License-Identifier: BSL-1.0

// Something is thrown at every step of the start and of the door in turn: all ranks end, and nothing is left open.

#define TUTTI_FAULT_POINTS

#include <tutti/transport/tcp/door.hpp>
#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "transport/tcp_start.hpp"

using namespace test;
using namespace std::chrono_literals;

namespace {

tutti::fault::plan raise_at(std::uint64_t nth) {
  tutti::fault::plan p;
  p.nth = nth;
  p.what = tutti::fault::action::raise;
  return p;
}

/// Takes what a door makes.
struct taker {
  explicit taker(std::size_t size) : sockets(size) {}
  void established(int peer, asio::ip::tcp::socket&& socket) {
    sockets[static_cast<std::size_t>(peer)].emplace(std::move(socket));
  }
  void cannot_connect(int, const std::string&) { failed = true; }
  std::vector<std::optional<asio::ip::tcp::socket>> sockets;
  bool failed = false;
};

}  // namespace

TEST_CASE("E6: the start ends on every rank, whatever is thrown in it, and leaves nothing open") {
  const deadline limit(60s);
  const no_leak descriptors;
  tcp_settings settings;
  settings.farewell = 20ms;
  std::uint64_t nth = 1;
  for (bool fired = true; fired; ++nth) {
    CAPTURE(nth);
    meeting m(3);
    m.job.start_timeout = 60ms;
    tutti::fault::arm(raise_at(nth));
    m.start_all(settings);
    const std::deque<outcome>& ended = m.join();
    fired = tutti::fault::fired();
    tutti::fault::disarm();
    const auto threw = [](const outcome& o) { return contains(o.text, "fault point tcp."); };
    CHECK(std::any_of(ended.begin(), ended.end(), threw) == fired);
    for (const outcome& o : ended) {
      CAPTURE(o.text);
      CHECK((o.kind == "none" || o.kind == "resource_error" || o.kind == "timed_out" || o.kind == "peer_failed" ||
             o.kind == "other"));
      if (!fired) CHECK(o == outcome{});
    }
  }
  CHECK(nth > 20);
}

TEST_CASE("E6: what is thrown at a door comes out of the io_context, and nothing is left open") {
  const deadline limit(60s);
  const no_leak descriptors;
  std::uint64_t nth = 1;
  for (bool fired = true; fired; ++nth) {
    CAPTURE(nth);
    asio::io_context io;
    std::vector<tcp_membership> met;
    for (int rank = 0; rank < 2; ++rank) {
      met.push_back({{}, std::vector<tcp_member>(2), {}, tutti::detail::tcp_listener(io)});
      asio::error_code wrong;
      met.back().listener.open({asio::ip::make_address("127.0.0.1"), 0}, 64, wrong);
      REQUIRE_FALSE(wrong);
    }
    for (tcp_membership& m : met)
      for (std::size_t rank = 0; rank < 2; ++rank) m.members[rank].endpoint = met[rank].listener.local_endpoint();
    const tcp_options job = job_of(2, "127.0.0.1:1");
    std::deque<taker> owners;
    std::deque<tutti::detail::tcp_door<taker>> doors;
    for (int rank = 0; rank < 2; ++rank) {
      owners.emplace_back(2);
      doors.emplace_back(io, rank_of(job, rank), met[static_cast<std::size_t>(rank)], owners.back());
      doors.back().start();
      doors.back().connect(1 - rank);
    }
    tutti::fault::arm(raise_at(nth));
    const outcome ended = outcome_of([&] {
      while (!(owners[0].sockets[1] && owners[1].sockets[0])) io.run_one();
    });
    fired = tutti::fault::fired();
    tutti::fault::disarm();
    CHECK((ended.kind == "other" || ended.kind == "resource_error" || ended == outcome{}));
    CHECK(contains(ended.text, "fault point tcp.") == fired);
    doors.clear();
    io.restart();
    io.poll();
  }
  CHECK(nth > 8);
}
