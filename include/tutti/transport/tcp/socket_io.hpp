// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tutti::detail {

/// What a socket has done of what it was asked for: never waits, never raises SIGPIPE.
struct socket_result {
  std::size_t bytes = 0;
  int error = 0;       ///< errno; 0 if there is none
  bool ended = false;  ///< the peer sends nothing more
};

inline socket_result socket_outcome(ssize_t moved) noexcept {
  if (moved >= 0) return {static_cast<std::size_t>(moved), 0, false};
  return {0, errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno, false};
}

/// Writes from up to `parts` places what there is room for.
inline socket_result socket_write(int socket, iovec* from, std::size_t parts) noexcept {
  msghdr message{};
  message.msg_iov = from;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(parts);
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return socket_outcome(sent);
}

inline socket_result socket_write(int socket, const std::byte* from, std::size_t bytes) noexcept {
  ssize_t sent;
  do sent = ::send(socket, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return socket_outcome(sent);
}

/// Reads what has come, at least one byte asked for.
inline socket_result socket_read(int socket, std::byte* to, std::size_t bytes) noexcept {
  ssize_t got;
  do got = ::recv(socket, to, bytes, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  socket_result result = socket_outcome(got);
  result.ended = got == 0;
  return result;
}
inline socket_result socket_read(int socket, iovec* to, std::size_t parts) noexcept {
  msghdr message{};
  message.msg_iov = to;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(parts);
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  socket_result result = socket_outcome(got);
  result.ended = got == 0;
  return result;
}

/// Whether a connected socket leads to the host it is on: both its ends have the same address.
inline bool socket_is_local(int socket) noexcept {
  sockaddr_storage ends[2] = {};
  socklen_t sizes[2] = {sizeof ends[0], sizeof ends[1]};
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ends[0]), &sizes[0]) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&ends[1]), &sizes[1]) != 0 ||
      ends[0].ss_family != ends[1].ss_family)
    return false;
  const auto same = [&](std::size_t at, std::size_t bytes) {
    return std::memcmp(reinterpret_cast<const std::byte*>(&ends[0]) + at,
                       reinterpret_cast<const std::byte*>(&ends[1]) + at, bytes) == 0;
  };
  if (ends[0].ss_family == AF_INET) return same(offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  return ends[0].ss_family == AF_INET6 && same(offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr));
}

/// A socket to the same host is not held to an estimated bandwidth, where the system lets everybody choose `reno`:
/// nothing there can be congested, and BBR held the halves of 2 MiB back to a half of the speed. If `queue_bytes` is
/// not 0, what is on its way is bounded. To other hosts, the system and the distance decide.
inline void tune_local_socket(int socket, std::size_t queue_bytes) noexcept {
  if (!socket_is_local(socket)) return;
  static constexpr char unpaced[] = "reno";
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
  if (queue_bytes == 0) return;
  const int size = static_cast<int>(queue_bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

}  // namespace tutti::detail
