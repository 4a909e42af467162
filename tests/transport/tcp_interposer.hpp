// SPDX-License-Identifier: BSL-1.0
#pragma once

// The system calls on TCP sockets of this program, replaced: they take fewer bytes than they are given, fail when they
// are told to, are counted, and connect to another port than they are asked for. Included by one source of a program.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace test::interposer {

enum class call { read, write, readv, writev, recv, send, recvmsg, sendmsg, accept, connect, poll, socket, count };

constexpr unsigned bit(call which) { return 1U << static_cast<unsigned>(which); }
inline constexpr unsigned reads = bit(call::read) | bit(call::readv) | bit(call::recv) | bit(call::recvmsg);
inline constexpr unsigned writes = bit(call::write) | bit(call::writev) | bit(call::send) | bit(call::sendmsg);

/// One call takes no more bytes than this.
inline std::atomic<std::size_t> cap{SIZE_MAX};

/// Of the calls of `kinds`, counted from 1, the `at`-th fails with `error`; and every `every`-th if that is not 0.
/// Reads and accepts count when there is something to be had, so that looking again and again does not.
struct fault {
  std::atomic<unsigned> kinds{0};
  std::atomic<long> at{0};
  std::atomic<long> every{0};
  std::atomic<int> error{0};
  std::atomic<bool> only_marked{false};  ///< only in threads that have `marked` set
  std::atomic<long> seen{0};
  std::atomic<long> failed{0};
};
inline fault rule;
inline thread_local bool marked = false;

/// How often each was called on a TCP socket and moved something.
inline std::array<std::atomic<long>, static_cast<std::size_t>(call::count)> calls{};
inline long count_of(call which) { return calls[static_cast<std::size_t>(which)].load(); }
inline long count_of(unsigned kinds) {
  long sum = 0;
  for (unsigned i = 0; i < calls.size(); ++i)
    if ((kinds >> i & 1U) != 0) sum += calls[i].load();
  return sum;
}

/// Who wants to connect to the first port gets the second: 0 ends the list.
struct redirection {
  std::atomic<std::uint16_t> from{0}, to{0};
};
inline std::array<redirection, 8> redirections;

inline void fail(unsigned kinds, int error, long at, long every = 0, bool only_marked = false) {
  rule.kinds = 0;
  rule.seen = 0;
  rule.failed = 0;
  rule.at = at;
  rule.every = every;
  rule.error = error;
  rule.only_marked = only_marked;
  rule.kinds = kinds;
}

/// Everything as it was.
inline void reset() {
  cap = SIZE_MAX;
  rule.kinds = 0;
  for (auto& each : redirections) each.from = 0;
  for (auto& each : calls) each = 0;
}
/// While it lives; then everything as it was.
struct session {
  session() { reset(); }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() { reset(); }
};

inline void redirect(std::uint16_t from, std::uint16_t to) {
  for (auto& each : redirections) {
    if (each.from != 0) continue;
    each.to = to;
    each.from = from;
    return;
  }
}

inline bool is_tcp(int descriptor) {
  int family = 0, type = 0;
  socklen_t length = sizeof family;
  const int before = errno;
  const bool found = getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 &&
                     getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
  errno = before;
  return found && (family == AF_INET || family == AF_INET6) && type == SOCK_STREAM;
}

inline bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  timespec now{};
  const int before = errno;
  const long found = syscall(SYS_ppoll, &one, 1, &now, nullptr, 0);
  errno = before;
  return found > 0;
}

// Who waits at an epoll(7) for the edge at which a socket can be read or written again, as Asio does after a call that
// took less than it was given, gets one: the socket still can.
struct registration {
  int epoll = -1;
  epoll_event wanted{};
};
inline std::mutex registrations_mutex;
inline std::array<registration, 1024> registrations;  // by descriptor
inline void give_edge(int descriptor) {
  const std::lock_guard lock(registrations_mutex);
  if (static_cast<std::size_t>(descriptor) >= registrations.size()) return;
  registration& found = registrations[static_cast<std::size_t>(descriptor)];
  const int before = errno;
  if (found.epoll >= 0) syscall(SYS_epoll_ctl, found.epoll, EPOLL_CTL_MOD, descriptor, &found.wanted);
  errno = before;
}

// A connection that is said to be broken is: the other end gets a reset.
inline void break_connection(int descriptor) {
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  const int before = errno;
  syscall(SYS_connect, descriptor, &none, sizeof none);
  errno = before;
}

// Whether this call is to fail; errno is set then.
inline bool fails(call which, int descriptor) {
  if ((rule.kinds & bit(which)) == 0 || (rule.only_marked && !marked)) return false;
  if ((bit(which) & (reads | bit(call::accept))) != 0 && !readable(descriptor)) return false;
  const long number = ++rule.seen;
  const long every = rule.every;
  if (number != rule.at && (every == 0 || number % every != 0)) return false;
  ++rule.failed;
  errno = rule.error;
  if (errno == EAGAIN) give_edge(descriptor);
  if (errno == ECONNRESET || errno == EPIPE) break_connection(descriptor);
  return true;
}

inline long counted(call which, long result) {
  if (result >= 0) ++calls[static_cast<std::size_t>(which)];
  return result;
}

// What a call came to that was given `size` bytes, but no more than `cap` of them.
inline long counted(call which, int descriptor, std::size_t size, long result) {
  if (result >= 0 && static_cast<std::size_t>(result) < size && size > cap) give_edge(descriptor);
  return counted(which, result);
}

// No more than `cap` bytes of several places.
class cut_places {
 public:
  cut_places(const iovec* places, std::size_t count) {
    std::size_t left = cap;
    for (std::size_t i = 0; i < count; ++i) whole_ += places[i].iov_len;
    for (std::size_t i = 0; i < count && count_ < cut_.size() && left > 0; ++i) {
      cut_[count_] = places[i];
      cut_[count_].iov_len = std::min(left, places[i].iov_len);
      left -= cut_[count_++].iov_len;
    }
  }
  iovec* data() { return cut_.data(); }
  std::size_t size() const { return count_; }
  std::size_t whole() const { return whole_; }

 private:
  std::array<iovec, 64> cut_;
  std::size_t count_ = 0;
  std::size_t whole_ = 0;
};

}  // namespace test::interposer

extern "C" {

ssize_t read(int descriptor, void* to, std::size_t size) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_read, descriptor, to, size);
  if (fails(call::read, descriptor)) return -1;
  return counted(call::read, descriptor, size, syscall(SYS_read, descriptor, to, std::min(size, cap.load())));
}

ssize_t write(int descriptor, const void* from, std::size_t size) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_write, descriptor, from, size);
  if (fails(call::write, descriptor)) return -1;
  return counted(call::write, descriptor, size, syscall(SYS_write, descriptor, from, std::min(size, cap.load())));
}

ssize_t readv(int descriptor, const iovec* places, int count) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_readv, descriptor, places, count);
  if (fails(call::readv, descriptor)) return -1;
  cut_places cut(places, static_cast<std::size_t>(count));
  return counted(call::readv, descriptor, cut.whole(), syscall(SYS_readv, descriptor, cut.data(), cut.size()));
}

ssize_t writev(int descriptor, const iovec* places, int count) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_writev, descriptor, places, count);
  if (fails(call::writev, descriptor)) return -1;
  cut_places cut(places, static_cast<std::size_t>(count));
  return counted(call::writev, descriptor, cut.whole(), syscall(SYS_writev, descriptor, cut.data(), cut.size()));
}

ssize_t recv(int descriptor, void* to, std::size_t size, int flags) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_recvfrom, descriptor, to, size, flags, nullptr, nullptr);
  if (fails(call::recv, descriptor)) return -1;
  return counted(call::recv, descriptor, size,
                 syscall(SYS_recvfrom, descriptor, to, std::min(size, cap.load()), flags, nullptr, nullptr));
}

ssize_t send(int descriptor, const void* from, std::size_t size, int flags) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_sendto, descriptor, from, size, flags, nullptr, 0);
  if (fails(call::send, descriptor)) return -1;
  return counted(call::send, descriptor, size,
                 syscall(SYS_sendto, descriptor, from, std::min(size, cap.load()), flags, nullptr, 0));
}

ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_recvmsg, descriptor, message, flags);
  if (fails(call::recvmsg, descriptor)) return -1;
  cut_places cut(message->msg_iov, message->msg_iovlen);
  msghdr less = *message;
  less.msg_iov = cut.data();
  less.msg_iovlen = static_cast<decltype(less.msg_iovlen)>(cut.size());
  return counted(call::recvmsg, descriptor, cut.whole(), syscall(SYS_recvmsg, descriptor, &less, flags));
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  using namespace test::interposer;
  if (!is_tcp(descriptor)) return syscall(SYS_sendmsg, descriptor, message, flags);
  if (fails(call::sendmsg, descriptor)) return -1;
  cut_places cut(message->msg_iov, message->msg_iovlen);
  msghdr less = *message;
  less.msg_iov = cut.data();
  less.msg_iovlen = static_cast<decltype(less.msg_iovlen)>(cut.size());
  return counted(call::sendmsg, descriptor, cut.whole(), syscall(SYS_sendmsg, descriptor, &less, flags));
}

int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* wanted) noexcept {
  using namespace test::interposer;
  const long result = syscall(SYS_epoll_ctl, epoll, operation, descriptor, wanted);
  if (result == 0 && static_cast<std::size_t>(descriptor) < registrations.size()) {
    const std::lock_guard lock(registrations_mutex);
    registration& found = registrations[static_cast<std::size_t>(descriptor)];
    found = operation == EPOLL_CTL_DEL ? registration{} : registration{epoll, *wanted};
  }
  return static_cast<int>(result);
}

int accept4(int descriptor, sockaddr* address, socklen_t* length, int flags) {
  using namespace test::interposer;
  if (fails(call::accept, descriptor)) return -1;
  return static_cast<int>(counted(call::accept, syscall(SYS_accept4, descriptor, address, length, flags)));
}

int accept(int descriptor, sockaddr* address, socklen_t* length) { return accept4(descriptor, address, length, 0); }

int connect(int descriptor, const sockaddr* address, socklen_t length) {
  using namespace test::interposer;
  if (fails(call::connect, descriptor)) return -1;
  sockaddr_storage other{};
  std::memcpy(&other, address, std::min<std::size_t>(length, sizeof other));
  in_port_t* port = nullptr;
  if (address->sa_family == AF_INET) port = &reinterpret_cast<sockaddr_in*>(&other)->sin_port;
  if (address->sa_family == AF_INET6) port = &reinterpret_cast<sockaddr_in6*>(&other)->sin6_port;
  for (const auto& each : redirections) {
    if (port == nullptr || each.from == 0 || each.from != ntohs(*port)) continue;
    *port = htons(each.to);
    break;
  }
  ++calls[static_cast<std::size_t>(call::connect)];
  return static_cast<int>(syscall(SYS_connect, descriptor, &other, length));
}

int poll(pollfd* watched, nfds_t count, int milliseconds) {
  using namespace test::interposer;
  if (fails(call::poll, -1)) return -1;
  timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  return static_cast<int>(counted(
      call::poll, syscall(SYS_ppoll, watched, count, milliseconds < 0 ? nullptr : &limit, nullptr, std::size_t{8})));
}

int socket(int family, int type, int protocol) noexcept {
  using namespace test::interposer;
  if (fails(call::socket, -1)) return -1;
  return static_cast<int>(counted(call::socket, syscall(SYS_socket, family, type, protocol)));
}

}  // extern "C"
