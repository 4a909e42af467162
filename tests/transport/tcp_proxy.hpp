// SPDX-License-Identifier: BSL-1.0
#pragma once

// A bad network between two ends of this host: a proxy that listens on loopback, connects onwards for every connection
// it accepts, and spoils what passes. One thread, no sleeps; what is late is late by the clock of poll(2).

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace test {

/// What happens to the bytes of one direction of one connection. Counts are of bytes of that direction.
struct proxy_rules {
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::size_t per_call = 65536;            // a read or write takes no more
  std::chrono::microseconds delay{0};      // a piece is passed on so much later
  std::uint64_t blackhole_after = never;   // the rest is taken and goes nowhere, nor does the end of it
  std::uint64_t reset_after = never;       // then both sides are reset
  std::uint64_t half_close_after = never;  // the receiver sees the end of the stream there; the rest goes nowhere
};

struct proxy_behaviour {
  proxy_rules onwards;  // from who connected to who listens
  proxy_rules back;
};

class tcp_proxy {
 public:
  /// Passes on to `port` of 127.0.0.1. `behaviour(i)` says, on the thread of the proxy, what is to happen to the i-th
  /// connection.
  explicit tcp_proxy(std::uint16_t port, std::function<proxy_behaviour(int)> behaviour)
      : target_(port), behaviour_(std::move(behaviour)) {
    listener_ = make_socket();
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    news_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (listener_ < 0 || news_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listener_, 128) != 0 || getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  explicit tcp_proxy(std::uint16_t port, const proxy_behaviour& all = {})
      : tcp_proxy(port, [all](int) { return all; }) {}
  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;
  ~tcp_proxy() {
    tell(wish::end);
    thread_.join();
    connections_.clear();
    ::close(listener_);
    ::close(news_);
  }

  /// Where to connect to.
  std::uint16_t port() const { return port_; }
  /// From now on nothing gets through any more, in any connection, old or new; nor does its end.
  void blackhole() { tell(wish::blackhole); }
  /// Resets every connection that there is.
  void reset() { tell(wish::reset); }
  /// Both ends see the end of every stream that there is, once they have got what is on the way.
  void half_close() { tell(wish::half_close); }

  /// How many connections have been accepted.
  int connections() const { return accepted_.load(); }
  /// How many bytes have been passed on, in all connections and both directions.
  std::uint64_t passed() const { return passed_.load(); }

 private:
  using clock = std::chrono::steady_clock;
  enum class wish { none, blackhole, reset, half_close, end };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  // The system calls themselves, and not what a test may have put in the place of the functions.
  static ssize_t take_from(int descriptor, void* to, std::size_t size) {
    return syscall(SYS_recvfrom, descriptor, to, size, MSG_DONTWAIT, nullptr, nullptr);
  }
  static ssize_t pass_to(int descriptor, const void* from, std::size_t size) {
    return syscall(SYS_sendto, descriptor, from, size, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
  }
  static int make_socket() {
    return static_cast<int>(syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  static int accept_at(int descriptor) {
    return static_cast<int>(syscall(SYS_accept4, descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }

  static void close_with_reset(int descriptor) {
    const linger now{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(descriptor);
  }

  // One direction: `from` is read, `to` is written.
  struct direction {
    struct piece {
      clock::time_point due;
      std::vector<char> bytes;
      std::size_t written = 0;
    };
    static constexpr std::size_t most_kept = 256 * 1024;

    int from, to;
    proxy_rules rules;
    std::deque<piece> pieces{};
    std::size_t kept = 0;
    std::uint64_t read = 0, written = 0;
    bool swallow = false;   // what is read goes nowhere
    bool ended = false;     // nothing more can be read
    bool end_told = false;  // and `to` has been told

    bool wants_to_read() const { return !ended && (swallow || kept < most_kept); }
    const piece* due(clock::time_point now) const {
      return !pieces.empty() && pieces.front().due <= now ? &pieces.front() : nullptr;
    }
    // False: the connection is to be reset.
    bool take(clock::time_point now) {
      char buffer[65536];
      const ssize_t n = take_from(from, buffer, std::min(rules.per_call, sizeof buffer));
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      if (n == 0) {
        ended = true;
        return true;
      }
      if (swallow) return true;
      auto count = static_cast<std::size_t>(n);
      const std::uint64_t limit = std::min(rules.blackhole_after, std::min(rules.half_close_after, rules.reset_after));
      count = static_cast<std::size_t>(std::min<std::uint64_t>(count, limit - read));
      read += count;
      kept += count;
      if (count > 0) pieces.push_back({now + rules.delay, std::vector<char>(buffer, buffer + count)});
      if (read == rules.blackhole_after || read == rules.half_close_after) swallow = true;
      return true;
    }
    bool pass() {
      piece& first = pieces.front();
      const std::size_t count = std::min(rules.per_call, first.bytes.size() - first.written);
      const ssize_t n = pass_to(to, first.bytes.data() + first.written, count);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      first.written += static_cast<std::size_t>(n);
      written += static_cast<std::uint64_t>(n);
      kept -= static_cast<std::size_t>(n);
      if (first.written == first.bytes.size()) pieces.pop_front();
      return true;
    }
    bool over() const { return written >= rules.reset_after; }
    void tell_end() {
      const bool cut = written == rules.half_close_after;
      if (end_told || !pieces.empty() || !(cut || (ended && !swallow))) return;
      shutdown(to, SHUT_WR);
      end_told = true;
    }
  };

  struct connection {
    connection(int client, int server, const proxy_behaviour& behaviour)
        : onwards{client, server, behaviour.onwards}, back{server, client, behaviour.back} {
      // What the rules have happen after no byte at all.
      for (direction* const each : {&onwards, &back})
        each->swallow = each->rules.blackhole_after == 0 || each->rules.half_close_after == 0;
    }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection() {
      if (reset) {
        close_with_reset(onwards.from);
        close_with_reset(onwards.to);
      } else {
        ::close(onwards.from);
        ::close(onwards.to);
      }
    }
    direction onwards, back;
    bool connecting = true;
    bool reset = false;
    // An end that has closed altogether is seen by poll(2) even where nobody wants to read.
    bool finished() const { return reset || (onwards.end_told && back.end_told && onwards.ended && back.ended); }
  };

  // Returns when the thread has done it.
  void tell(wish what) {
    wish_.store(what);
    const std::uint64_t one = 1;
    if (write(news_, &one, sizeof one) != sizeof one) std::abort();
    wish_.wait(what);
  }

  void accept_all() {
    for (;;) {
      const int client = accept_at(listener_);
      if (client < 0) return;
      const int server = make_socket();
      const sockaddr_in address = loopback(target_);
      if (server < 0) std::abort();
      if (syscall(SYS_connect, server, &address, sizeof address) != 0 && errno != EINPROGRESS) {
        ::close(server);
        close_with_reset(client);
        continue;
      }
      const int on = 1;
      for (const int end : {client, server}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      proxy_behaviour behaviour = behaviour_(accepted_.load());
      if (blackhole_) behaviour.onwards.blackhole_after = behaviour.back.blackhole_after = 0;
      connections_.push_back(std::make_unique<connection>(client, server, behaviour));
      ++accepted_;
    }
  }

  // False: the thread ends.
  bool obey() {
    std::uint64_t count = 0;
    if (read(news_, &count, sizeof count) != sizeof count) return true;
    const wish what = wish_.load();
    blackhole_ = blackhole_ || what == wish::blackhole;
    for (const auto& each : connections_) {
      if (what == wish::reset) each->reset = true;
      for (direction* const way : {&each->onwards, &each->back}) {
        if (what == wish::blackhole) {
          way->swallow = true;
          way->pieces.clear();
          way->rules.half_close_after = proxy_rules::never;
        }
        if (what == wish::half_close) {
          way->swallow = true;
          way->rules.half_close_after = way->written + way->kept;
          way->tell_end();
        }
      }
    }
    if (what == wish::reset) connections_.clear();
    wish_.store(wish::none);
    wish_.notify_all();
    return what != wish::end;
  }

  void serve() {
    std::vector<pollfd> watched;
    for (;;) {
      watched.assign({{news_, POLLIN, 0}, {listener_, POLLIN, 0}});
      clock::time_point now = clock::now();
      clock::time_point next = clock::time_point::max();
      for (const auto& each : connections_) watch(*each, now, next, watched);
      timespec wait{};
      if (next != clock::time_point::max()) {
        const auto left = std::max(clock::duration::zero(), next - now);
        wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
        wait.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
      }
      ppoll(watched.data(), watched.size(), next == clock::time_point::max() ? nullptr : &wait, nullptr);
      if (watched[0].revents != 0 && !obey()) return;
      if (watched[0].revents != 0) continue;  // other connections than were watched
      now = clock::now();
      for (std::size_t i = 0; i < connections_.size(); ++i)
        step(*connections_[i], watched[2 + 2 * i].revents, watched[3 + 2 * i].revents, now);
      std::erase_if(connections_, [](const auto& each) { return each->finished(); });
      if (watched[1].revents != 0) accept_all();
    }
  }

  static void watch(const connection& each, clock::time_point now, clock::time_point& next, std::vector<pollfd>& all) {
    short client = 0, server = 0;
    if (each.connecting) {
      server = POLLOUT;
    } else {
      if (each.onwards.wants_to_read()) client |= POLLIN;
      if (each.back.wants_to_read()) server |= POLLIN;
      if (each.onwards.due(now) != nullptr) server |= POLLOUT;
      if (each.back.due(now) != nullptr) client |= POLLOUT;
      for (const direction* const way : {&each.onwards, &each.back})
        if (!way->pieces.empty() && way->due(now) == nullptr) next = std::min(next, way->pieces.front().due);
    }
    // One that nothing is wanted of is not watched: its error would wake for ever.
    all.push_back({client != 0 ? each.onwards.from : -1, client, 0});
    all.push_back({server != 0 ? each.onwards.to : -1, server, 0});
  }

  void step(connection& each, short client, short server, clock::time_point now) {
    if (each.connecting) {
      if (server == 0) return;
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(each.onwards.to, SOL_SOCKET, SO_ERROR, &error, &length);
      each.connecting = false;
      each.reset = error != 0;
      return;
    }
    bool well = true;
    const auto move = [&](direction& way, short source, short sink) {
      if (source != 0 && way.wants_to_read()) well = way.take(now) && well;
      if (sink != 0 && way.due(now) != nullptr) {
        const std::uint64_t before = way.written;
        well = way.pass() && well;
        passed_ += way.written - before;
      }
      way.tell_end();
      well = well && !way.over();
    };
    move(each.onwards, client, server);
    move(each.back, server, client);
    // A reset of one end is passed on to the other, but not through a hole.
    const bool hole = blackhole_ || (each.onwards.swallow && each.back.swallow);
    if (!well && !hole) each.reset = true;
    if (!well && hole) each.onwards.ended = each.back.ended = true;
  }

  std::uint16_t target_, port_ = 0;
  std::function<proxy_behaviour(int)> behaviour_;
  int listener_ = -1, news_ = -1;
  bool blackhole_ = false;
  std::vector<std::unique_ptr<connection>> connections_;
  std::atomic<wish> wish_ = wish::none;
  std::atomic<int> accepted_ = 0;
  std::atomic<std::uint64_t> passed_ = 0;
  std::thread thread_;
};

}  // namespace test
