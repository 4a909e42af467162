// SPDX-License-Identifier: BSL-1.0

// Whoever else connects to the name that ranks meet under, or holds it.

#include <tutti/transport/processes/rendezvous.hpp>

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/meeting.hpp"

using namespace test;
using namespace std::chrono_literals;
using tutti::detail::rendezvous_host;
using tutti::detail::share_descriptor;
using what = rendezvous_note::what;

namespace {

/// A job of four whose rank 0 waits. The others come when the strangers have had their say, and all is well then.
class meeting {
 public:
  explicit meeting(const rendezvous_options& options = for_ever()) : options_(options) { start(); }
  /// Rank 0 begins after `before(job)`, whose result is kept.
  template <class Before>
  requires std::invocable<Before, const std::string&>
  explicit meeting(Before before) : options_(for_ever()), kept_(before(job)) { start(); }
  void finish() {
    for (int rank = 1; rank < size; ++rank) ranks_.start_rank(rank, size, job, options_, segment_);
    all_well(ranks_);
    strangers_ = host_->strangers();
    host_.reset();
  }
  /// How many were dropped; after `finish`.
  int strangers() const { return strangers_; }

  static constexpr int size = 4;
  const std::string job = new_job();

 private:
  void start() {
    host_.emplace(size, job, options_);
    ranks_.start([this] { host_->share(segment_.get(), [](int) {}); });
  }

  rendezvous_options options_;
  descriptor_owner kept_;
  descriptor_owner segment_ = memory();
  std::optional<rendezvous_host> host_;
  int strangers_ = -1;
  crew ranks_;
};

std::vector<std::string> corpus() {
  std::vector<std::string> all{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                               std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS client hello
                               "SSH-2.0-OpenSSH_9.2\r\n",
                               std::string("\x00\x00\x00\x85\xffSMB\x72\x00", 10),
                               std::string(64, '\0'),
                               std::string(64, '\xff'),
                               std::string(48, '\0'),
                               std::string(48, '\xff'),
                               "tuttihello",
                               std::string(100'000, 'x')};
  std::mt19937 random(4711);
  for (std::size_t size = 1; size <= 128; ++size) {
    std::string bytes(size, '\0');
    for (char& b : bytes) b = static_cast<char>(random());
    all.push_back(bytes);
  }
  return all;
}

}  // namespace

TEST_CASE("D1 connections that close at any byte of the first message") {
  const deadline limit(60s);
  const no_leak descriptors;
  meeting m;
  const rendezvous_hello hello = hello_of(m.job, 1, meeting::size);
  int count = 0;
  for (std::size_t bytes = 0; bytes < sizeof hello; ++bytes) {
    for (int times = 0; times < 20; ++times, ++count) {
      const raw_socket scan(m.job);
      if (bytes > 0) scan.say(&hello, bytes);
    }
  }
  m.finish();
  CHECK(m.strangers() == count);
}

TEST_CASE("D2 silent sockets and wrong magic hold up nobody") {
  const deadline limit(60s);
  const no_leak descriptors;
  meeting m;
  rendezvous_hello wrong = hello_of(m.job, 1, meeting::size);
  wrong.magic ^= 1;
  std::vector<raw_socket> sockets;
  for (int i = 0; i < 100; ++i) {
    sockets.emplace_back(m.job);
    sockets.emplace_back(m.job);
    sockets.back().say(wrong);
  }
  m.finish();
  CHECK(m.strangers() >= 100 + 100 - rendezvous_options::max_silent);
  for (const raw_socket& s : sockets) CHECK(s.closed());
}

TEST_CASE("D2 a silent socket is dropped when its time is up, while the ranks are waited for") {
  const deadline limit(30s);
  const no_leak descriptors;
  rendezvous_options options = for_ever();
  options.hello_limit = 5ms;
  meeting m(options);
  const raw_socket silent(m.job);
  CHECK(silent.closed());
  m.finish();
  CHECK(m.strangers() == 1);
}

TEST_CASE("D2 one that speaks late, but in time, is heard") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(3, job, for_ever());
  crew ranks;
  ranks.start([&] { host.share(segment.get(), [](int) {}); });
  const raw_socket slow(job);
  {
    const raw_socket after(job);  // rank 0 has looked at both when it has answered this one
    REQUIRE(after.say(hello_of(job, 1, 3)));
    REQUIRE(after.hear().kind == what::welcome);
    REQUIRE(slow.say(hello_of(job, 2, 3)));
    CHECK(slow.hear().kind == what::welcome);
    CHECK(slow.hear().kind == what::descriptor);
  }
  all_failed(ranks, "peer_failed", 1, {"left before all had attached"});
}

TEST_CASE("D3, D4 what scanners send is dropped") {
  const deadline limit(60s);
  const no_leak descriptors;
  meeting m;
  const std::vector<std::string> all = corpus();
  std::vector<raw_socket> sockets;
  for (const std::string& bytes : all) {
    sockets.emplace_back(m.job);
    CHECK(sockets.back().say(bytes.data(), bytes.size()));
  }
  for (const raw_socket& s : sockets) CHECK(s.closed());
  m.finish();
  CHECK(m.strangers() == static_cast<int>(all.size()));
}

TEST_CASE("D4 a first message with any one field out of range is dropped or refused, and the host lives") {
  const deadline limit(60s);
  const no_leak descriptors;
  meeting m;
  for (const int rank : {-1, 0, 4, 5, 1 << 30, -(1 << 30)}) {
    const raw_socket scan(m.job);
    REQUIRE(scan.say(hello_of(m.job, rank, meeting::size)));
    CHECK(scan.closed());
  }
  for (const int size : {0, -1, 1, -(1 << 30)}) {
    const raw_socket scan(m.job);
    REQUIRE(scan.say(hello_of(m.job, 1, size)));
    CHECK(scan.closed());
  }
  m.finish();
  CHECK(m.strangers() == 10);
}

TEST_CASE("D4 a first message with any one bit turned is never taken for another") {
  const deadline limit(60s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  rendezvous_options options = within(1ms);
  options.farewell = 1ns;
  const std::string job = new_job();
  for (std::size_t bit = 0; bit < 8 * offsetof(rendezvous_hello, unused); ++bit) {
    CAPTURE(bit);
    rendezvous_hello hello = hello_of(job, 1, 2);
    std::array<unsigned char, sizeof hello> bytes;
    std::memcpy(bytes.data(), &hello, sizeof hello);
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1u << bit % 8));
    std::memcpy(&hello, bytes.data(), sizeof hello);
    rendezvous_host host(2, job, options);
    const raw_socket scan(job);
    REQUIRE(scan.say(hello));
    REQUIRE(scan.say(what::attached));
    const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
    const bool disagrees =
        hello.magic == rendezvous_hello::right_magic && hello.rank >= 1 &&
        (hello.version != options.version || (hello.rank < hello.size && hello.job == hello_of(job, 1, 2).job));
    CHECK(ended.kind == (disagrees ? "mismatch" : "timed_out"));
    CHECK(scan.hear().kind != what::welcome);
  }
}

TEST_CASE("D4 descriptors that strangers send along are not kept") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m;
  const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(m.job, geteuid()), geteuid());
  for (int times = 0; times < 50; ++times) {
    const descriptor_owner gift = memory();
    const descriptor_owner socket = tutti::detail::make_rendezvous_socket();
    while (connect(socket.get(), name.address(), name.size()) != 0) sched_yield();
    rendezvous_hello wrong;
    wrong.magic = 0;
    CHECK(tutti::detail::send_packet(socket, wrong, gift.get()) == 0);
  }
  m.finish();
  CHECK(m.strangers() == 50);
}

TEST_CASE("C4 a rank of another job is refused with both names, and harms nobody") {
  const deadline limit(30s);
  const no_leak descriptors;
  const std::string other = new_job();
  const std::string other_name = tutti::detail::job_hash::of(other, geteuid()).hexadecimal();
  meeting m;
  const std::string own_name = tutti::detail::job_hash::of(m.job, geteuid()).hexadecimal();
  const raw_socket left_over(m.job);
  REQUIRE(left_over.say(hello_of(other, 1, meeting::size)));
  const rendezvous_note answer = left_over.hear();
  REQUIRE(answer.kind == what::refused);
  CHECK(answer.reason().kind == tutti::errc::mismatch);
  CHECK(contains(answer.reason().text, "is of job " + other_name + ", and this is job " + own_name));
  CHECK(left_over.closed());
  m.finish();
  CHECK(m.strangers() == 1);
}

TEST_CASE("C4 rank 0 that waits in vain tells of those it did not know") {
  const deadline limit(30s);
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_host host(2, job, within(1ms));
  const raw_socket left_over(job);
  const raw_socket scan(job);
  REQUIRE(left_over.say(hello_of("another", 1, 2)));
  REQUIRE(scan.say("hello", 5));
  const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
  CHECK(ended.kind == "timed_out");
  CHECK(contains(ended.text,
                 "rank 1 of 2 had not come after 1 ms; 2 connections were not of this job, the last of them"));
  CHECK(contains(ended.text, "process " + std::to_string(getpid()) + " is of job "));
}

TEST_CASE("C4 the name is held by somebody else: the error names it and the process") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, geteuid()), geteuid());
  int ready[2];
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const descriptor_owner reading(ready[0]);
  descriptor_owner writing(ready[1]);
  child holder([&] {
    const descriptor_owner listener = tutti::detail::make_rendezvous_socket();
    if (bind(listener.get(), name.address(), name.size()) != 0 || listen(listener.get(), 64) != 0) return 1;
    if (write(writing.get(), "x", 1) != 1) return 1;
    for (;;) pause();
  });
  writing.reset();
  char token = 0;
  REQUIRE(read(reading.get(), &token, 1) == 1);

  const std::string process = "process " + std::to_string(holder.id());
  const outcome host = outcome_of([&] { share_descriptor(0, 2, job, segment.get(), 30ms); });
  CHECK(host.kind == "resource_error");
  CHECK(contains(host.text, "rank 0 cannot have the name " + name.shown() + ": for all of 30 ms " + process));
  const outcome guest = outcome_of([&] { share_descriptor(1, 2, job, -1, 30ms); });
  CHECK(guest.kind == "timed_out");
  CHECK(contains(guest.text, process + " holds the name " + name.shown() + " and does not answer as rank 0"));

  // Both wait for it to go, and then meet.
  crew ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.start_rank(rank, 2, job, for_ever(), segment);
  holder.kill(SIGKILL);
  CHECK(holder.wait() == -SIGKILL);
  all_well(ranks);
}

TEST_CASE("C4 a socket of another kind may have the same name") {
  const deadline limit(30s);
  const no_leak descriptors;
  meeting m([](const std::string& job) {
    const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, geteuid()), geteuid());
    descriptor_owner stream(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind(stream.get(), name.address(), name.size()) == 0);
    REQUIRE(listen(stream.get(), 8) == 0);
    return stream;
  });
  m.finish();
  CHECK(m.strangers() == 0);
}

TEST_CASE("another user's rank 0 is not believed, and another user's ranks are not served") {
  const deadline limit(30s);
  const no_leak descriptors;
  const descriptor_owner segment = memory();
  const std::string job = new_job();
  rendezvous_options other = within(30ms);
  other.user = geteuid() + 1;  // so that we are the stranger
  {
    rendezvous_host host(2, job, other);
    const raw_socket rank_1(job, other.user);
    rendezvous_hello hello = hello_of(job, 1, 2);
    hello.job = tutti::detail::job_hash::of(job, other.user);
    REQUIRE(rank_1.say(hello));
    const outcome ended = outcome_of([&] { host.share(segment.get(), [](int) {}); });
    CHECK(ended.kind == "timed_out");
    CHECK(ended.peer == 1);
    CHECK(contains(ended.text, "rank 1 of 2 had not come after 30 ms; 1 connections were not of this job"));
    CHECK(rank_1.closed());
  }
  const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, other.user), other.user);
  const descriptor_owner listener = tutti::detail::make_rendezvous_socket();
  REQUIRE(bind(listener.get(), name.address(), name.size()) == 0);
  REQUIRE(listen(listener.get(), 64) == 0);
  // It answers as rank 0 would.
  std::atomic<bool> over{false};
  crew ranks;
  ranks.start([&] {
    const outcome guest = outcome_of([&] { share_descriptor(1, 2, job, -1, other, [](int) {}); });
    over = true;
    guest.kind == "timed_out" ? throw tutti::timed_out(0, guest.text) : throw std::runtime_error("believed it");
  });
  while (!over) {
    pollfd comes{listener.get(), POLLIN, 0};
    tutti::detail::wait_for_sockets(&comes, 1, tutti::detail::time_limit::in(1ms));
    if (comes.revents == 0) continue;
    const descriptor_owner rank_1(accept(listener.get(), nullptr, nullptr));
    rendezvous_note note;
    note.remaining_ns = 1'000'000'000;
    for (const what kind : {what::welcome, what::descriptor, what::complete}) {
      note.kind = kind;
      tutti::detail::send_packet(rank_1, note, kind == what::descriptor ? segment.get() : -1);
    }
  }
  all_failed(ranks, "timed_out", 0,
             {"process " + std::to_string(getpid()) + " of user " + std::to_string(geteuid()) + " holds the name " +
              name.shown() + " of user " + std::to_string(other.user)});
}

TEST_CASE("a rank does not take what is no answer of rank 0 for one") {
  const deadline limit(30s);
  const no_leak descriptors;
  const std::string job = new_job();
  const tutti::detail::rendezvous_name name(tutti::detail::job_hash::of(job, geteuid()), geteuid());
  descriptor_owner listener = tutti::detail::make_rendezvous_socket();
  REQUIRE(bind(listener.get(), name.address(), name.size()) == 0);
  REQUIRE(listen(listener.get(), 64) == 0);
  const descriptor_owner segment = memory();
  crew ranks;
  ranks.start_rank(1, 2, job, for_ever(), segment);
  rendezvous_note early;
  early.kind = what::descriptor;
  const std::string bytes(sizeof early, 'x');
  for (int times = 0; times < 4; ++times) {
    pollfd comes{listener.get(), POLLIN, 0};
    while (comes.revents == 0) tutti::detail::wait_for_sockets(&comes, 1, tutti::detail::time_limit::never());
    const descriptor_owner rank_1(accept(listener.get(), nullptr, nullptr));
    if (times == 0) tutti::detail::send_packet(rank_1, early, segment.get());
    if (times == 1) send(rank_1.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (times == 2) send(rank_1.get(), bytes.data(), 3, MSG_NOSIGNAL);
  }
  listener.reset();
  ranks.start_rank(0, 2, job, for_ever(), segment);  // it has looked on all the while
  all_well(ranks);
}
