// SPDX-License-Identifier: BSL-1.0

// One of two ranks has joined as it should, and then says whatever it likes on its control connection: the other ends
// with an error, if with one, and is not harmed.

#include <tutti/run_tcp.hpp>

#include "deadline.hpp"
#include "transport/tcp_start.hpp"

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace test;
using namespace tutti::detail;
using tutti::errc;

namespace {

using kinds = tcp_answer::kinds;
constexpr int least = std::numeric_limits<int>::min();
constexpr int most = std::numeric_limits<int>::max();

bool receive(int socket, void* to, std::size_t size) {
  return ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}
bool say(int socket, const void* from, std::size_t size) {
  return ::send(socket, from, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}
void say(int socket, const std::vector<control_message>& messages) {
  std::string frames;
  for (const control_message& m : messages) write_control(frames, m);
  say(socket, frames.data(), frames.size());
}
/// Until the other end has said all.
void drain(int socket) {
  std::array<char, 4096> some{};
  while (::recv(socket, some.data(), some.size(), 0) > 0) {
  }
}

/// How rank 1 of two ends, which waits for rank 0, if that says this once all have come.
outcome after_rank_0(const std::vector<control_message>& says) {
  listening_socket listener;
  const tcp_options job = job_of(2, listener.master);
  outcome result;
  std::thread honest(
      [&] { result = outcome_of([&] { tutti::run_tcp(rank_of(job, 1), [](auto& comm) { tutti::barrier(comm); }); }); });
  const descriptor_owner guest(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::array<std::byte, tcp_hello::bytes> hello{};
  std::array<std::byte, tcp_answer::bytes + tcp_member_frame::bytes> here{};
  const auto who = tcp_credentials::of(job.job, job.token);
  tcp_answer heard(kinds::heard, who);
  heard.remaining = 60'000;
  tcp_answer welcome(kinds::welcome, who);
  welcome.count = 2;
  const auto greeting = heard.encode();
  const auto entry = welcome.encode();
  const std::byte* const member = here.data() + tcp_answer::bytes;
  CHECK(receive(guest.get(), hello.data(), hello.size()));
  CHECK(say(guest.get(), greeting.data(), greeting.size()));
  CHECK(receive(guest.get(), here.data(), here.size()));
  CHECK(say(guest.get(), entry.data(), entry.size()));
  for (int rank = 0; rank < 2; ++rank) CHECK(say(guest.get(), member, tcp_member_frame::bytes));
  say(guest.get(), says);
  shutdown(guest.get(), SHUT_WR);
  drain(guest.get());
  honest.join();
  return result;
}

/// How rank 0 of two ends, which waits for rank 1, if that says this once all have come.
outcome after_rank_1(const std::vector<control_message>& says) {
  listening_socket listener;
  tcp_options job = job_of(2, listener.master);
  job.listener = listener.socket.release();
  outcome result;
  std::thread honest(
      [&] { result = outcome_of([&] { tutti::run_tcp(job, [](auto& comm) { tutti::barrier(comm); }); }); });
  {
    const raw_connection c(job.master);
    tcp_member where;
    where.endpoint = {asio::ip::make_address("127.0.0.1"), 1};
    where.host = host_identity();
    where.network = network_identity(where.host);
    std::array<std::byte, 2 * tcp_member_frame::bytes> members{};
    CHECK(c.say(hello_of(job, 1)));
    CHECK(c.hear().kind == kinds::heard);
    CHECK(c.say_here(job, where));
    CHECK(c.hear().kind == kinds::welcome);
    CHECK(c.read(members.data(), members.size()));
    say(c.descriptor(), says);
    shutdown(c.descriptor(), SHUT_WR);
    drain(c.descriptor());
  }
  honest.join();
  return result;
}

control_message of_kind(control_kind kind, int peer = -1) {
  control_message m;
  m.kind = kind;
  m.peer = peer;
  return m;
}

}  // namespace

TEST_CASE("D4 rank 0 says that a rank has left that does not exist, or that all have while one is still there") {
  const deadline limit(60s);
  const outcome nonsense{"peer_failed", "rank 0 sent what is no message of this protocol: peer failed", 0};
  for (const int peer : {-1, 2, 1'000'000, least, most})
    CHECK(after_rank_0({of_kind(control_kind::has_left, peer)}) == nonsense);
  CHECK(after_rank_0({of_kind(control_kind::farewell)}) == nonsense);
  const outcome left = after_rank_0({of_kind(control_kind::has_left, 0)});
  CHECK(left.kind == "peer_failed");
  CHECK(left.peer == 0);
}

TEST_CASE("D4 whatever the other rank says, this one ends with an error that can be told") {
  const deadline limit(120s);
  std::mt19937_64 random(5);
  const auto any_of = [&](const auto& list) { return list[random() % std::size(list)]; };
  constexpr int peers[] = {-1, 0, 1, 2, least, most};
  constexpr std::uint64_t numbers[] = {0, 1, 2, 15, 16, 1'000, std::numeric_limits<std::uint64_t>::max()};
  for (int repetition = 0; repetition < 60; ++repetition) {
    CAPTURE(repetition);
    std::vector<control_message> says(1 + random() % 6);
    for (control_message& m : says) {
      m = of_kind(static_cast<control_kind>(1 + random() % static_cast<unsigned>(last_control_kind)), any_of(peers));
      m.code = static_cast<errc>(1 + random() % 5);
      m.round = any_of(peers);
      m.milliseconds = static_cast<std::int64_t>(any_of(numbers));
      m.ticket = any_of(numbers);
      m.number = any_of(numbers);
      m.fingerprint = random();
      m.text = std::string(random() % 20, '%');
      if (random() % 2 == 0) continue;
      const auto calls = std::make_shared<recorded_calls>();
      for (std::uint64_t i = random() % 4; i > 0; --i) {
        recorded_call c;
        c.sequence = any_of(numbers);
        c.count = any_of(numbers);
        c.root = any_of(peers);
        calls->add(c);
      }
      m.calls = calls;
    }
    const outcome of = repetition % 2 == 0 ? after_rank_0(says) : after_rank_1(says);
    CHECK(of.kind != "none");
    CHECK(of.kind != "other");
  }
}

TEST_CASE("D4 a rank that reports ever more, and never says what it called, is named, and what it says is not kept") {
  const deadline limit(60s);
  const auto both = std::make_shared<const std::vector<std::int32_t>>(std::vector<std::int32_t>{0, 1});
  const outcome ended{"peer_failed", "rank 1 has ended without a word: peer failed", 1};
  for (const control_kind kind : {control_kind::differs, control_kind::failed}) {
    CAPTURE(static_cast<int>(kind));
    std::vector<control_message> says;
    for (std::uint32_t group = 1; group <= 10'000; ++group) {
      says.push_back(of_kind(kind, 0));
      says.back().group = group;
      says.back().members = both;
    }
    const std::string text = "rank 1 has reported more than 258 failures that are not decided yet: peer failed";
    CHECK(after_rank_1(says) == outcome{"peer_failed", text, 1});
    says.resize(258);
    CHECK(after_rank_1(says) == ended);
  }
}

TEST_CASE("D4 a rank that waits in ever more communicators to come is named, and what it asks is not kept") {
  const deadline limit(60s);
  std::vector<control_message> says;
  for (std::uint32_t group = 1; group <= 10'000; ++group) {
    says.push_back(of_kind(control_kind::looks, 0));
    says.back().group = group;
    says.back().number = 1;
  }
  const std::string text =
      "rank 1 waits for another one in more than 256 communicators which that one is not in yet: peer failed";
  CHECK(after_rank_1(says) == outcome{"peer_failed", text, 1});
  // The same communicator again and again is one.
  for (control_message& m : says) m.group = 1 + m.group % 256;
  CHECK(after_rank_1(says) == outcome{"peer_failed", "rank 1 has ended without a word: peer failed", 1});
}
