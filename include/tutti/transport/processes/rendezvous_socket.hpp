// SPDX-License-Identifier: BSL-1.0
#pragma once

// Sockets of one host that keep the limits of messages, have their names in no file system, and never block.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes/rendezvous_message.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tutti::detail {

/// A point in time until which to wait, which may be never.
class time_limit {
 public:
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

  static time_limit never() { return time_limit(clock::time_point::max()); }
  static time_limit in(nanoseconds span) {
    const clock::time_point now = clock::now();
    return time_limit(span < clock::time_point::max() - now ? now + span : clock::time_point::max());
  }
  bool passed() const { return at_ != clock::time_point::max() && clock::now() >= at_; }
  /// Not negative; `nanoseconds::max()` for never.
  nanoseconds left() const {
    if (at_ == clock::time_point::max()) return nanoseconds::max();
    const nanoseconds span = at_ - clock::now();
    return span.count() > 0 ? span : nanoseconds(0);
  }
  bool before(time_limit other) const { return at_ < other.at_; }
  time_limit or_sooner(time_limit other) const { return other.before(*this) ? other : *this; }

 private:
  explicit time_limit(clock::time_point at) : at_(at) {}
  clock::time_point at_;
};

// strerror_r returns the text in one C library, and in another whether it has written it.
inline const char* text_of_error(const char* text, const char*) { return text; }
inline const char* text_of_error(int, const char* written) { return written; }
/// What the system calls the error of that number.
[[gnu::cold]] inline std::string system_text(int number) {
  char buffer[128] = {};
  return text_of_error(strerror_r(number, buffer, sizeof buffer), buffer);
}

/// Returns when one of the sockets has something to tell, or the limit has passed, or a signal came.
inline void wait_for_sockets(pollfd* sockets, std::size_t count, time_limit until) {
  const std::chrono::nanoseconds left = until.left();
  timespec span{};
  span.tv_sec = static_cast<decltype(span.tv_sec)>(left.count() / 1'000'000'000);
  span.tv_nsec = static_cast<decltype(span.tv_nsec)>(left.count() % 1'000'000'000);
  const bool endless = left == std::chrono::nanoseconds::max();
  const int ready = ppoll(sockets, count, endless ? nullptr : &span, nullptr);
  if (ready < 0 && errno != EINTR)
    throw resource_error(message() << "rendezvous: the system refused to wait for " << count
                                   << " sockets: " << system_text(errno));
  if (ready <= 0)
    for (std::size_t i = 0; i < count; ++i) sockets[i].revents = 0;
}

/// The name that the ranks of a job meet under. It is an abstract one: it goes when the socket does, whatever ends the
/// process, and is known in one network namespace.
class rendezvous_name {
 public:
  rendezvous_name(const job_hash& job, uid_t user)
      : shown_(message() << "@tutti-" << static_cast<unsigned long>(user) << "-" << job.hexadecimal()) {
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, shown_.data() + 1, shown_.size() - 1);
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + shown_.size()); }
  /// As /proc/net/unix shows it.
  const std::string& shown() const { return shown_; }

 private:
  std::string shown_;
  sockaddr_un address_{};
};

inline descriptor_owner make_rendezvous_socket() {
  descriptor_owner made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) throw resource_error(message() << "rendezvous: the system refused a socket: " << system_text(errno));
  return made;
}

/// Who is at the other end, as the kernel tells: of one that accepted, who began to listen. Process 0 if it is not
/// known.
inline ucred peer_of(const descriptor_owner& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {0, static_cast<uid_t>(-1), 0};
  return peer;
}

/// Sends the packet, and the descriptor with it unless that is negative. Zero, or the number of the error. No signal.
template <class Packet>
int send_packet(const descriptor_owner& socket, const Packet& packet, int descriptor = -1) {
  Packet sent = packet;
  iovec part{&sent, sizeof sent};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  for (;;) {
    if (sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

/// How a look for a packet ended.
struct received {
  enum class result { packet, nothing, closed };
  result how;
  std::size_t size = 0;           ///< of the packet, which may be other than what was expected
  descriptor_owner descriptor{};  ///< that came with it
  bool lost = false;              ///< more came with it than could be taken
};

/// Looks for a packet. Descriptors that come along are taken only if `wanted`; the kernel drops others.
template <class Packet>
received receive_packet(const descriptor_owner& socket, Packet& packet, bool wanted = false) {
  iovec part{&packet, sizeof packet};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  // A peer that closes with something unread leaves an error before the packets that it sent: it is told once.
  for (bool again = true;;) {
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (wanted) {
      header.msg_control = control;
      header.msg_controllen = CMSG_LEN(sizeof(int));  // padding would have room for a second one
    }
    const ssize_t got = recvmsg(socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ECONNRESET && again) {
      again = false;
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {received::result::nothing};
    if (got <= 0) return {received::result::closed};
    received r{received::result::packet};
    r.size = (header.msg_flags & MSG_TRUNC) != 0 ? sizeof packet + 1 : static_cast<std::size_t>(got);
    r.lost = (header.msg_flags & MSG_CTRUNC) != 0;
    if (!wanted) return r;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int))) continue;
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(c), sizeof descriptor);
      r.descriptor.reset(descriptor);
    }
    return r;
  }
}

/// Pauses between attempts: from a quarter of a millisecond, doubled each time up to 16, each shortened by a random
/// part so that ranks that began together do not come together.
class retry_pause {
 public:
  explicit retry_pause(int rank)
      : state_(static_cast<std::uint64_t>(time_limit::clock::now().time_since_epoch().count()) ^
               (static_cast<std::uint64_t>(getpid()) << 32) ^ static_cast<std::uint64_t>(rank)) {}

  void wait(time_limit until) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto part = static_cast<std::int64_t>(state_ >> 54);  // below 1024
    wait_for_sockets(nullptr, 0, until.or_sooner(time_limit::in(span_ / 2 + span_ * part / 2048)));
    if (span_ < std::chrono::milliseconds(16)) span_ *= 2;
  }

 private:
  std::uint64_t state_;
  std::chrono::nanoseconds span_ = std::chrono::microseconds(250);
};

}  // namespace tutti::detail
