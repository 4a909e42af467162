// SPDX-License-Identifier: BSL-1.0
#pragma once

// What tests of the start of tcp share: ranks that are threads, rank 0's listener, and sockets of strangers.

#include <tutti/core/descriptor.hpp>
#include <tutti/transport/tcp/start.hpp>

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/outcome.hpp"
#include "descriptors.hpp"

namespace test {

using tutti::tcp_options;
using tutti::detail::descriptor_owner;
using tutti::detail::tcp_answer;
using tutti::detail::tcp_hello;
using tutti::detail::tcp_member;
using tutti::detail::tcp_membership;
using tutti::detail::tcp_settings;

/// Leaves this process no descriptor while it lives, beside those that it has.
class no_more_descriptors {
 public:
  no_more_descriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const descriptor_owner next(fcntl(0, F_DUPFD_CLOEXEC, 0));  // the lowest that is free
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next.get());
    setrlimit(RLIMIT_NOFILE, &few);
    limit = std::to_string(next.get());
  }
  no_more_descriptors(const no_more_descriptors&) = delete;
  no_more_descriptors& operator=(const no_more_descriptors&) = delete;
  ~no_more_descriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  /// What an error is to say.
  std::string text() const {
    return "the limit of " + limit + " open descriptors of this process (RLIMIT_NOFILE, ulimit -n) is reached";
  }

 private:
  rlimit before_{};
  std::string limit;
};

/// A socket that listens at that address of this host, at a port that is free.
struct listening_socket {
  explicit listening_socket(const char* address = "127.0.0.1", int backlog = 1024) {
    const bool six = std::string(address).find(':') != std::string::npos;
    socket.reset(::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_storage where{};
    socklen_t size = 0;
    if (six) {
      auto& a = reinterpret_cast<sockaddr_in6&>(where);
      a.sin6_family = AF_INET6;
      REQUIRE(inet_pton(AF_INET6, address, &a.sin6_addr) == 1);
      size = sizeof a;
    } else {
      auto& a = reinterpret_cast<sockaddr_in&>(where);
      a.sin_family = AF_INET;
      REQUIRE(inet_pton(AF_INET, address, &a.sin_addr) == 1);
      size = sizeof a;
    }
    REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&where), size) == 0);
    REQUIRE(listen(socket.get(), backlog) == 0);
    REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port =
        ntohs(six ? reinterpret_cast<sockaddr_in6&>(where).sin6_port : reinterpret_cast<sockaddr_in&>(where).sin_port);
    master = (six ? "[" + std::string(address) + "]" : std::string(address)) + ":" + std::to_string(port);
  }
  descriptor_owner socket;
  int port = 0;
  std::string master;
};

/// A port of 127.0.0.1 that is free, and that the system gives to nobody who does not ask for it: tests take those
/// below the ones for connections.
inline int free_port() {
  static std::atomic<unsigned> next{static_cast<unsigned>(getpid()) * 97u};
  for (;;) {
    const int port = 12000 + static_cast<int>(next++ % 18000u);
    const descriptor_owner probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(probe.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return port;
  }
}

/// Options of a job of its own, at loopback. Its ranks wait for each other longer than a test may take.
inline tcp_options job_of(int size, const std::string& master) {
  static std::atomic<int> count{0};
  tcp_options o;
  o.size = size;
  o.master = master;
  o.job = "test " + std::to_string(getpid()) + "." + std::to_string(++count);
  o.token = "a secret";
  o.start_timeout = std::chrono::seconds(600);
  return o;
}
inline tcp_options rank_of(tcp_options job, int rank) {
  job.rank = rank;
  return job;
}

/// One rank: an io_context, and what it has met.
struct met_rank {
  asio::io_context io;
  std::vector<tcp_membership> membership;  // one, if it has met
  void meet(const tcp_options& options, const tcp_settings& settings = {}) {
    membership.push_back(tutti::detail::tcp_meet(io, options, settings));
  }
};

/// Ranks that are threads, and how each ended.
class ranks_meeting {
 public:
  ranks_meeting() = default;
  ~ranks_meeting() { join(); }
  void start(const tcp_options& options, const tcp_settings& settings = {}) {
    met_rank& rank = ranks_.emplace_back();
    outcome& kept = ended_.emplace_back();
    threads_.emplace_back(
        [&rank, &kept, options, settings] { kept = outcome_of([&] { rank.meet(options, settings); }); });
  }
  const std::deque<outcome>& join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    return ended_;
  }
  std::deque<met_rank>& ranks() { return ranks_; }

  /// They have met, and know the same of each other.
  void all_well() {
    for (const outcome& o : join()) REQUIRE(o == outcome{});
    const int size = static_cast<int>(ranks_.size());
    const tcp_membership& first = ranks_.front().membership.at(0);
    for (met_rank& rank : ranks_) {
      const tcp_membership& m = rank.membership.at(0);
      CHECK(m.session == first.session);
      REQUIRE(m.members.size() == static_cast<std::size_t>(size));
      for (int i = 1; i < size; ++i) {
        CHECK(m.members[static_cast<std::size_t>(i)].endpoint == first.members[static_cast<std::size_t>(i)].endpoint);
        CHECK(m.members[static_cast<std::size_t>(i)].host == first.members[0].host);
        CHECK(m.members[static_cast<std::size_t>(i)].network == first.members[0].network);
      }
    }
  }
  void all_failed(const std::string& kind, int peer, const std::vector<std::string>& texts) {
    check_all_failed(join(), kind, peer, texts);
  }

 private:
  std::deque<met_rank> ranks_;
  std::deque<outcome> ended_;
  std::vector<std::thread> threads_;
};

/// The same for the ranks of one job, which meet where `listener` listens: rank 0 takes it over.
struct meeting : ranks_meeting {
  explicit meeting(int size, const char* address = "127.0.0.1", int backlog = 1024)
      : listener(address, backlog), job(job_of(size, listener.master)) {}
  ~meeting() { join(); }

  tcp_options options_of(int rank) {
    tcp_options o = rank_of(job, rank);
    if (rank == 0) o.listener = listener.socket.release();
    return o;
  }
  using ranks_meeting::start;
  void start(int rank, const tcp_settings& settings = {}) { start(options_of(rank), settings); }
  void start_all(const tcp_settings& settings = {}) {
    for (int rank = 0; rank < job.size; ++rank) start(rank, settings);
  }

  listening_socket listener;
  tcp_options job;
};

/// A connection of somebody who does not play by the rules.
class raw_connection {
 public:
  explicit raw_connection(const std::string& master) {
    tutti::detail::host_and_port to;
    asio::ip::address address;
    REQUIRE(tutti::detail::parse_host_and_port(master, to) == nullptr);
    REQUIRE(tutti::detail::parse_address(to.host, address) == nullptr);
    const asio::ip::tcp::endpoint endpoint(address, static_cast<asio::ip::port_type>(to.port));
    for (;;) {  // not there yet
      socket_.reset(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      REQUIRE(socket_);
      if (connect(socket_.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0) return;
      if (errno != ECONNREFUSED && errno != EINTR) throw std::runtime_error("cannot connect");
      sched_yield();
    }
  }
  int descriptor() const { return socket_.get(); }
  /// False if the other end has closed.
  bool say(const void* bytes, std::size_t size) const {
    return send(socket_.get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool say(const std::string& bytes) const { return say(bytes.data(), bytes.size()); }
  bool say(const tcp_hello& hello) const {
    const auto frame = hello.encode();
    return say(frame.data(), frame.size());
  }
  bool say_here(const tcp_options& job, const tcp_member& where) const {
    const auto who = tutti::detail::tcp_credentials::of(job.job, job.token);
    const auto frame = tcp_answer(tcp_answer::kinds::here, who).encode();
    std::array<std::byte, tutti::detail::tcp_member_frame::bytes> member{};
    tutti::detail::tcp_member_frame::encode(where, member.data());
    return say(frame.data(), frame.size()) && say(member.data(), member.size());
  }
  /// Reads so many bytes; false if the other end closes before.
  bool read(void* to, std::size_t size) const {
    std::size_t got = 0;
    while (got < size) {
      const ssize_t n = recv(socket_.get(), static_cast<char*>(to) + got, size - got, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      got += static_cast<std::size_t>(n);
    }
    return true;
  }
  /// The next answer; its kind is zero if the other end has closed.
  tcp_answer hear() const {
    std::array<std::byte, tcp_answer::bytes> frame{};
    if (!read(frame.data(), frame.size())) return {};
    return tcp_answer::decode(frame.data());
  }
  std::string text_of(const tcp_answer& answer) const {
    std::string text(answer.text_bytes(), '\0');
    if (!read(text.data(), text.size())) return {};
    return text;
  }
  /// Waits until the other end has closed; false if it says something before.
  bool closed() const {
    char byte = 0;
    return !read(&byte, 1);
  }

 private:
  descriptor_owner socket_;
};

/// What a rank of that job says first.
inline tcp_hello hello_of(const tcp_options& job, int rank) {
  tcp_hello hello;
  hello.who = tutti::detail::tcp_credentials::of(job.job, job.token);
  hello.rank = rank;
  hello.size = job.size;
  return hello;
}

}  // namespace test
