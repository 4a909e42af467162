// SPDX-License-Identifier: BSL-1.0

// When a rank over TCP takes a connection for one that swallows what is written to it, and when it does not. The test
// is the clock.

#include <tutti/transport/tcp/stalls.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

namespace {

using namespace std::chrono_literals;
using tutti::detail::tcp_stalls;
using finding = tcp_stalls::finding;

/// Rank 0 of two, which looks every 100 ms at its connection to the other. The limit is a second.
struct watcher {
  tcp_stalls stalls{2, 1s};
  tcp_stalls::time_point now{10s};
  std::uint64_t written = 0;
  tcp_stalls::time_point known{};

  void claim(std::uint64_t bytes) {
    written = bytes;
    known = now;
  }
  finding look(std::uint64_t received, bool misses = true, std::chrono::milliseconds later = 100ms) {
    now += later;
    CHECK(stalls.due(now));
    return stalls.look(1, misses, received, written, known, now);
  }
  /// The first that is not `nothing`, and after how many looks; none after 100.
  int until_lost(std::uint64_t received) {
    for (int looks = 1; looks <= 100; ++looks)
      if (look(received) == finding::lost) return looks;
    return 0;
  }
};

}  // namespace

TEST_CASE("what has been written and does not come is lost after the limit, and not before") {
  watcher w;
  CHECK(w.look(50) == finding::nothing);
  CHECK(w.look(50) == finding::unknown);
  CHECK(w.look(50) == finding::nothing);  // it is asked once
  w.claim(51);
  CHECK(w.until_lost(50) == 10);
}

TEST_CASE("the peer has written nothing, however long it computes") {
  watcher w;
  w.look(50);
  CHECK(w.look(50) == finding::unknown);
  CHECK(w.until_lost(50) == 0);
  w.claim(50);  // of an earlier time
  CHECK(w.until_lost(50) == 0);
}

TEST_CASE("a byte now and then is enough, and whoever gets one asks anew") {
  watcher w;
  w.claim(1'000'000);
  std::uint64_t received = 50;
  for (int looks = 0; looks < 200; ++looks) CHECK(w.look(received += looks % 9 == 0 ? 1 : 0) == finding::nothing);
  w.claim(received);
  w.look(received + 1);
  CHECK(w.look(received + 1) == finding::unknown);
}

TEST_CASE("who does not wait for it misses nothing, and begins to wait anew") {
  watcher w;
  w.claim(100);
  w.look(50);
  CHECK(w.until_lost(50) == 10);
  CHECK(w.look(50, false) == finding::nothing);
  for (int looks = 0; looks < 100; ++looks) CHECK(w.look(50, false) == finding::nothing);
  CHECK(w.look(50) == finding::nothing);
  CHECK(w.until_lost(50) == 10);
}

TEST_CASE("who was stopped, or has not looked for long, begins anew") {
  watcher w;
  w.claim(100);
  w.look(50);
  for (int looks = 0; looks < 5; ++looks) CHECK(w.look(50) == finding::nothing);
  CHECK(w.look(50, true, 600ms) == finding::nothing);
  CHECK(w.until_lost(50) == 10);
  for (int looks = 0; looks < 20; ++looks) CHECK(w.look(50, true, 501ms) == finding::nothing);
}

TEST_CASE("it looks no more often than it must") {
  tcp_stalls stalls(3, 1600ms);
  CHECK(stalls.step() == 100ms);
  CHECK(stalls.due(tcp_stalls::time_point(10s)));
  CHECK_FALSE(stalls.due(tcp_stalls::time_point(10s + 99ms)));
  CHECK(stalls.due(tcp_stalls::time_point(10s + 100ms)));
  CHECK(tcp_stalls(3, 2ms).step() == 1ms);
}
