// SPDX-License-Identifier: BSL-1.0

// Whoever else connects, while the ranks meet and afterwards: dropped, counted, and in nobody's way.

#include <tutti/transport/tcp/door.hpp>
#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <random>
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

const std::vector<std::string> scans{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                     std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS
                                     "SSH-2.0-OpenSSH_9.2\r\n",
                                     std::string("\x00\x00\x00\x85\xffSMB\x72\x00", 10),
                                     std::string(64, '\0'),
                                     std::string(64, '\xff'),
                                     std::string(256, '\0'),
                                     std::string(100'000, 'x'),
                                     "\r\n"};

std::string bytes_of(const tcp_hello& hello) {
  const auto frame = hello.encode();
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

/// Strangers of all kinds, one after the other. Those that say too little to be dropped at once stay for a while.
class strangers {
 public:
  explicit strangers(const tcp_options& job) : job_(job), random_(4711) {}

  static constexpr int kinds_of_strangers = 15;
  void come(int count) {
    for (int i = 0; i < count; ++i) come_as(total++ % kinds_of_strangers);
  }
  void leave() { present_.clear(); }
  int total = 0;

 private:
  void come_as(int kind) {
    auto c = std::make_unique<raw_connection>(job_.master);
    tcp_hello hello = hello_of(job_, 1);
    const auto any = [&](std::size_t below) { return static_cast<std::size_t>(random_() % below); };
    if (kind < 9) {
      c->say(scans[static_cast<std::size_t>(kind)]);
    } else if (kind == 9) {  // closes at any byte of a good hello
      c->say(bytes_of(hello).substr(0, any(tcp_hello::bytes)));
      return;
    } else if (kind == 10) {  // random bytes
      std::string bytes(1 + any(512), '\0');
      for (char& b : bytes) b = static_cast<char>(random_());
      c->say(bytes);
    } else if (kind == 11) {  // a hello of another job, as it was
      tcp_options other = job_;
      other.job += " before";
      c->say(hello_of(other, 1));
    } else if (kind == 12) {  // guesses the token
      tcp_options other = job_;
      other.token[any(other.token.size())] ^= 1;
      c->say(hello_of(other, 1));
    } else if (kind == 13) {  // slow: the beginning of a good one
      c->say(bytes_of(hello).substr(0, 8 + any(100)));
    }  // or silent
    present_.push_back(std::move(c));
    if (present_.size() > 100) present_.pop_front();
  }

  tcp_options job_;
  std::mt19937 random_;
  std::deque<std::unique_ptr<raw_connection>> present_;
};

/// Rank 0 of three waits on its thread; the others come when the strangers have had their say.
struct meeting_of_three : meeting {
  explicit meeting_of_three(const tcp_settings& settings = {}) : meeting(3) { start(0, settings); }
  void finish() {
    for (int rank = 1; rank < 3; ++rank) start(rank);
    all_well();
  }
};

/// Three ranks that have met; the door of rank 0 is served on a thread.
class running {
 public:
  explicit running(const tcp_settings& settings = {}) {
    meeting_.finish();
    for (int rank = 0; rank < 3; ++rank) {
      met_rank& met = meeting_.ranks()[static_cast<std::size_t>(rank)];
      doors_.push_back(
          std::make_unique<tcp_door<running>>(met.io, rank_of(meeting_.job, rank), met.membership[0], *this, settings));
    }
    doors_[0]->start();
    asio::io_context& io = meeting_.ranks()[0].io;
    work_.emplace(io.get_executor());
    thread_ = std::thread([&io] { io.run(); });
  }
  ~running() {
    asio::io_context& io = meeting_.ranks()[0].io;
    asio::post(io, [this] {
      doors_[0]->close();
      work_.reset();
    });
    thread_.join();
  }
  /// Rank 0 is reached as ever.
  void check_reachable(int rank) {
    asio::io_context& io = meeting_.ranks()[static_cast<std::size_t>(rank)].io;
    doors_[static_cast<std::size_t>(rank)]->connect(0);
    const std::size_t before = made_;
    while (made_ == before)
      if (io.run_one() == 0) io.restart();
  }
  const tcp_options& job() const { return meeting_.job; }
  /// Waits until so many have been dropped, and no more.
  void await_strangers(int count) {
    while (doors_[0]->strangers() < static_cast<std::uint64_t>(count)) sched_yield();
    CHECK(doors_[0]->strangers() == static_cast<std::uint64_t>(count));
  }

  // What the doors call.
  void established(int peer, asio::ip::tcp::socket&& socket) {
    if (peer != 0) return;  // rank 0's end is closed at once
    CHECK(socket.is_open());
    ++made_;
  }
  void cannot_connect(int, const std::string& why) { FAIL(why); }

 private:
  meeting_of_three meeting_;
  std::vector<std::unique_ptr<tcp_door<running>>> doors_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::thread thread_;
  std::size_t made_ = 0;
};

/// Memory in use, in bytes.
std::size_t resident() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  unsigned long all = 0;
  unsigned long pages = 0;
  const int read = std::fscanf(file, "%lu %lu", &all, &pages);
  std::fclose(file);
  REQUIRE(read == 2);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}
/// Checks in the end that it has not become much more. A sanitizer keeps what is given back for a while.
class no_growth {
 public:
  no_growth() = default;
  no_growth(const no_growth&) = delete;
  no_growth& operator=(const no_growth&) = delete;
  ~no_growth() {
    if (!sanitized) CHECK(resident() < before_ + (std::size_t{16} << 20));
  }

 private:
  std::size_t before_ = resident();
};

constexpr int thousands = sanitized ? 1'000 : 5'000;

}  // namespace

TEST_CASE("D1: connections that close at any byte of a hello, while the ranks meet and afterwards") {
  const deadline limit(60s);
  const no_leak descriptors;
  constexpr int times = sanitized ? 4 : 20;
  const auto scan = [](const tcp_options& job) {
    const std::string hello = bytes_of(hello_of(job, 1));
    for (std::size_t bytes = 0; bytes < hello.size(); ++bytes) {
      for (int i = 0; i < times; ++i) {
        const raw_connection c(job.master);
        if (bytes > 0) c.say(hello.substr(0, bytes));
      }
    }
    return times * static_cast<int>(hello.size());
  };
  meeting_of_three m;
  scan(m.job);
  m.finish();
  running r;
  const int count = scan(r.job());
  r.check_reachable(1);
  r.await_strangers(count);
}

TEST_CASE("D1, D4: thousands of strangers of 15 kinds come while the ranks meet") {
  const deadline limit(60s);
  const no_leak descriptors;
  const no_growth memory;
  meeting_of_three m;
  strangers s(m.job);
  s.come(thousands);
  m.finish();
}

TEST_CASE("D1, D4: thousands of strangers of 15 kinds come to a running job") {
  const deadline limit(60s);
  const no_leak descriptors;
  const no_growth memory;
  running r;
  strangers s(r.job());
  const int before = open_descriptors();
  s.come(thousands / 2);
  r.check_reachable(1);
  s.come(thousands / 2);
  r.check_reachable(2);
  s.leave();
  r.await_strangers(s.total);
  CHECK(open_descriptors() <= before + 2);  // the connections of ranks 1 and 2 are closed by either end
}

TEST_CASE("D2: silent sockets and wrong beginnings hold up nobody, and no more than 64 are kept") {
  const deadline limit(60s);
  const no_leak descriptors;
  tcp_settings settings;
  settings.handshake_limit = 600s;
  meeting_of_three m(settings);
  std::deque<raw_connection> silent;
  std::deque<raw_connection> wrong;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(m.job.master);
    wrong.emplace_back(m.job.master);
    wrong.back().say(std::string(8, 'x'));
  }
  for (const raw_connection& c : wrong) CHECK(c.closed());
  m.finish();
  for (const raw_connection& c : silent) CHECK(c.closed());
}

TEST_CASE("D2: the oldest makes room for the next") {
  const deadline limit(60s);
  const no_leak descriptors;
  tcp_settings settings;
  settings.handshake_limit = 600s;
  running r(settings);
  std::deque<raw_connection> silent;
  for (std::size_t i = 0; i < settings.most_pending; ++i) silent.emplace_back(r.job().master);
  for (int more = 1; more <= 10; ++more) {
    silent.emplace_back(r.job().master);
    CHECK(silent.front().closed());
    silent.pop_front();
    r.await_strangers(more);
  }
  r.check_reachable(1);
  r.await_strangers(11);
}

TEST_CASE("D2: silence, and a byte now and then, are not listened to for longer than the limit") {
  const deadline limit(30s);
  const no_leak descriptors;
  tcp_settings settings;
  settings.handshake_limit = 10ms;
  meeting_of_three m(settings);
  const std::string hello = bytes_of(hello_of(m.job, 1));
  for (const bool slow : {false, true}) {
    const raw_connection c(m.job.master);
    for (std::size_t byte = 0; slow && byte + 1 < hello.size(); ++byte)
      if (!c.say(&hello[byte], 1)) break;
    CHECK(c.closed());
  }
  m.finish();
}

TEST_CASE("D2: one that speaks late, but in time, is heard") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting_of_three m;
  const raw_connection slow(m.job.master);
  const std::string hello = bytes_of(hello_of(m.job, 2));
  REQUIRE(slow.say(hello.substr(0, 5)));
  {
    const raw_connection after(m.job.master);  // rank 0 has looked at both when it has answered this one
    REQUIRE(after.say(hello_of(m.job, 1)));
    REQUIRE(after.hear().kind == kinds::heard);
  }
  REQUIRE(slow.say(hello.substr(5, 100)));
  REQUIRE(slow.say(hello.substr(105)));
  CHECK(slow.hear().kind == kinds::heard);
  m.finish();
}

TEST_CASE("D3: nothing is kept of what a stranger sends beyond a hello") {
  const deadline limit(60s);
  const no_leak descriptors;
  const no_growth memory;
  meeting_of_three m;
  tcp_options other = m.job;
  other.token = "guessed";
  const std::string much = bytes_of(hello_of(other, 1)) + std::string(1 << 20, 'x');
  for (int i = 0; i < 50; ++i) {
    const raw_connection c(m.job.master);
    for (std::size_t at = 0; at < much.size(); at += 65536)
      if (!c.say(much.substr(at, 65536))) break;
    CHECK(c.closed());
  }
  m.finish();
}

TEST_CASE("D3: one that knows the token, but says nonsense, ends the start of all rather than anything else") {
  const deadline limit(60s);
  const no_leak descriptors;
  const auto end_of_all = [](auto&& say) {
    tcp_settings settings;
    settings.farewell = 60s;
    meeting_of_three m(settings);
    const raw_connection c(m.job.master);
    REQUIRE(c.say(hello_of(m.job, 1)));
    REQUIRE(c.hear().kind == kinds::heard);
    say(c, m.job);
    const tcp_answer answer = c.hear();
    REQUIRE(answer.kind == kinds::refused);
    shutdown(c.descriptor(), SHUT_RDWR);
    m.start(2);
    const std::deque<outcome>& ended = m.join();
    for (const outcome& o : ended) CHECK(o == ended.front());
    return ended.front();
  };
  const auto answer = [](const tcp_options& job, kinds kind, std::uint32_t count) {
    tcp_answer made(kind, tutti::detail::tcp_credentials::of(job.job, job.token));
    made.error = 1;
    made.count = count;
    const auto frame = made.encode();
    return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
  };
  const std::string out_of_turn = "said what it may not say now";
  for (const kinds kind : {kinds::heard, kinds::welcome, kinds::accepted, kinds::yield, static_cast<kinds>(99)}) {
    const outcome o =
        end_of_all([&](const raw_connection& c, const tcp_options& job) { c.say(answer(job, kind, 1u << 31)); });
    CHECK(o.kind == "mismatch");
    CHECK(contains(o.text, "tcp start: rank 1 (127.0.0.1:"));
    CHECK(contains(o.text, out_of_turn));
  }
  const outcome garbage = end_of_all([](const raw_connection& c, const tcp_options&) { c.say(std::string(64, 'x')); });
  CHECK(contains(garbage.text, out_of_turn));
  const outcome nowhere = end_of_all([&](const raw_connection& c, const tcp_options& job) {
    c.say(answer(job, kinds::here, 0) + std::string(48, '\0'));
  });
  CHECK(contains(nowhere.text, out_of_turn));
  const outcome refusal = end_of_all([&](const raw_connection& c, const tcp_options& job) {
    c.say(answer(job, kinds::refused, 0xFFFFFFFF) + std::string(1000, 'y'));
  });
  CHECK(refusal.kind == "usage_error");
  CHECK(contains(refusal.text, std::string(1000, 'y')));
  const outcome early = end_of_all([&](const raw_connection& c, const tcp_options& job) {
    tcp_member where;
    where.endpoint = {asio::ip::make_address("127.0.0.1"), 1};
    c.say_here(job, where);
    c.say("more", 4);
  });
  CHECK(contains(early.text, out_of_turn));
}
