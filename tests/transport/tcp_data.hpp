// SPDX-License-Identifier: BSL-1.0
#pragma once

// Ranks that are threads of one process, joined by sockets: the data plane of the transport tcp without rendezvous,
// service threads and arbiter. What a group has to say is said in memory that all share.

#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/tcp/lane.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace test {

using tutti::detail::descriptor_owner;

/// How ranks are joined.
struct wiring {
  bool loopback = false;   ///< by TCP; else by pairs of local sockets
  int socket_buffer = 0;   ///< bytes; 0: as the system has it
  bool on_demand = false;  ///< when somebody wants to send; else from the beginning
  tutti::detail::tcp_tuning tuning{};
};

inline int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(what);
  return result;
}

inline void limit_buffers(int socket, int bytes) {
  if (bytes == 0) return;
  checked(setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "SO_SNDBUF");
  checked(setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), "SO_RCVBUF");
}

/// Two ends of a connection.
inline std::pair<descriptor_owner, descriptor_owner> connected_pair(bool loopback, int buffer = 0) {
  if (!loopback) {
    int ends[2];
    checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socketpair");
    limit_buffers(ends[0], buffer);
    limit_buffers(ends[1], buffer);
    return {descriptor_owner(ends[0]), descriptor_owner(ends[1])};
  }
  const auto make = [&] {
    descriptor_owner made(checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    limit_buffers(made.get(), buffer);
    return made;
  };
  const descriptor_owner listener = make();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  checked(bind(listener.get(), name, length), "bind");
  checked(listen(listener.get(), 1), "listen");
  checked(getsockname(listener.get(), name, &length), "getsockname");
  descriptor_owner one = make();
  checked(connect(one.get(), name, length), "connect");
  descriptor_owner other(checked(accept(listener.get(), nullptr, nullptr), "accept"));
  const int on = 1;
  for (const int end : {one.get(), other.get()})
    checked(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
  return {std::move(one), std::move(other)};
}

class wired_group;

/// What the ranks have in common.
class wires {
 public:
  wires(int ranks, const wiring& how);

  wired_group& group(int rank) { return groups_[static_cast<std::size_t>(rank)]; }
  /// Joins two ranks, once.
  void join(int one, int other);
  void fail(const tutti::failure& reason) noexcept;
  [[noreturn]] void raise() {
    std::unique_lock lock(mutex_);
    const tutti::failure first = *failure_;
    lock.unlock();
    first.raise();
  }
  tutti::failure why() {
    const std::lock_guard lock(mutex_);
    return failure_.value_or(tutti::failure{});
  }

  const wiring how;
  std::atomic<bool> failed{false};

 private:
  std::mutex mutex_;
  std::optional<tutti::failure> failure_;
  std::deque<wired_group> groups_;
};

/// One rank's end.
class wired_group {
 public:
  wired_group(wires& all, int rank, int size)
      : all_(&all),
        rank_(rank),
        size_(size),
        connections_(static_cast<std::size_t>(size)),
        wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
    for (auto& c : connections_) c.tune(all.how.tuning);
  }

  std::uint32_t number() const { return 0; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int lines() const { return size_; }
  tutti::detail::tcp_connection& line(int i) { return connection(i); }
  const tutti::detail::tcp_tuning& tuning() const { return all_->how.tuning; }
  tutti::detail::tcp_connection& connection(int peer) { return connections_[static_cast<std::size_t>(peer)]; }

  bool failed() const noexcept { return all_->failed.load(std::memory_order_acquire); }
  void check() {
    if (failed()) all_->raise();
  }
  [[noreturn]] void raise() { all_->raise(); }
  void fail(const tutti::failure& reason) noexcept { all_->fail(reason); }
  [[noreturn]] void distrust(int peer, const tutti::detail::tcp_header& header) {
    fail(tutti::detail::unsound_header(rank_, peer, header));
    raise();
  }
  bool has_left(int rank) const noexcept { return all_->group(rank).left_.load(std::memory_order_acquire); }
  static constexpr bool never_calls(int, std::uint64_t) { return false; }
  static constexpr bool sends_no_more(int) { return false; }
  void want(int peer) {
    ++wanted;
    all_->join(rank_, peer);
  }
  void lost(int peer, std::string_view what) noexcept {
    ++losses;
    if (!has_left(peer))
      fail({tutti::errc::peer_failed, peer,
            tutti::message() << "rank " << rank_ << " lost the connection to rank " << peer << ": " << what});
  }
  int wake_descriptor() const { return wake_.get(); }
  void quiet() noexcept {
    std::uint64_t news = 0;
    while (read(wake_.get(), &news, sizeof news) > 0) {
    }
  }
  void write_call(const tutti::call& c) noexcept { c.is_message() ? messages_.write(c) : log_.write(c); }
  [[noreturn]] void misfit(const tutti::call& received) {
    const int from = received.from();
    fail(tutti::detail::misfit(received, all_->group(from).messages_.find(from, rank_, received.history)));
    raise();
  }
  [[noreturn]] void disagree(int peer) {
    fail(tutti::detail::disagreement(rank_, log_, peer, all_->group(peer).log_));
    raise();
  }
  [[noreturn]] void late(const tutti::detail::waiting_place& at, long long milliseconds) {
    const auto last = [this](int rank) { return all_->group(rank).log_.last(); };
    const int who = tutti::detail::last_to_come(at, size_, last);
    fail(tutti::detail::too_late(at, who, milliseconds, last(who) >= at.during.sequence));
    raise();
  }
  void look_around(const tutti::detail::waiting_place& at) {
    ++looks_around;
    for (int peer = 0; peer < size_; ++peer) {
      const tutti::call theirs = all_->group(peer).log_.read(at.during.sequence);
      if (theirs.signature != nullptr && theirs.fingerprint() != at.during.fingerprint()) disagree(peer);
    }
  }
  void look_for_stalls(std::chrono::steady_clock::time_point) {}
  /// The news that this rank has left, while what it has sent is still on its way.
  void leave_early() noexcept { left_.store(true, std::memory_order_release); }
  void leave() noexcept {
    for (auto& c : connections_) c.finish_sending();
    left_.store(true, std::memory_order_release);
    for (int rank = 0; rank < size_; ++rank) all_->group(rank).wake();
  }
  void wake() noexcept {
    const std::uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) return;  // it is awake already
  }

  int wanted = 0;
  int losses = 0;
  int looks_around = 0;

 private:
  wires* all_;
  int rank_;
  int size_;
  tutti::owned_array<tutti::detail::tcp_connection> connections_;
  descriptor_owner wake_;
  tutti::detail::call_log log_;
  tutti::detail::message_log messages_;
  std::atomic<bool> left_{false};
};

inline wires::wires(int ranks, const wiring& wanted) : how(wanted) {
  for (int rank = 0; rank < ranks; ++rank) groups_.emplace_back(*this, rank, ranks);
  for (int one = 0; one < ranks && !how.on_demand; ++one)
    for (int other = 0; other < one; ++other) join(one, other);
}
inline void wires::join(int one, int other) {
  {
    const std::lock_guard lock(mutex_);
    if (group(one).connection(other).established()) return;
    auto [first, second] = connected_pair(how.loopback, how.socket_buffer);
    group(one).connection(other).establish(std::move(first));
    group(other).connection(one).establish(std::move(second));
  }
  group(one).wake();
  group(other).wake();
}
inline void wires::fail(const tutti::failure& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = reason;
    failed.store(true, std::memory_order_release);
  }
  for (wired_group& each : groups_) each.wake();
}

/// The transport tcp, on such a group.
class wired {
 public:
  using group_type = wired_group;
  using lane_type = tutti::detail::tcp_lane<group_type>;
  static constexpr std::size_t pack_bytes = 4096;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = 4096;

  explicit wired(group_type& group) : group_(&group) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->fail(tutti::detail::aborted(group_->rank(), text)); }
  tutti::cost_parameters costs() const { return {4e-6, 2e-6, 0.22e-9, 0.03e-9}; }

 private:
  group_type* group_;
  std::chrono::nanoseconds limit_{0};
};
static_assert(tutti::transport<wired> && tutti::landing_lane<wired::lane_type>);

/// Runs `f(comm)` on so many ranks; rethrows what the first failing rank threw.
template <class F>
void run_wired(int ranks, const wiring& how, F&& f) {
  wires all(ranks, how);
  tutti::detail::run_threads(
      ranks,
      [&](int rank) {
        tutti::communicator<wired> comm(wired(all.group(rank)));
        f(comm);
        all.group(rank).leave();
      },
      [&](int rank, const char* what) {
        all.fail({tutti::errc::peer_failed, rank, tutti::message() << "rank " << rank << " failed: " << what});
        all.group(rank).leave();
      },
      [&] { return all.why().peer; });
}

}  // namespace test
