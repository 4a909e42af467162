// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/tcp/socket_io.hpp>

#include <sys/socket.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace tutti::detail {

/// How the thread of a rank moves the bytes of a data connection: as they are.
struct tcp_plain_wire {
  /// Whether it may hold bytes itself: such that have come, which the descriptor does not show, or that are to be
  /// written, beside those of frames.
  static constexpr bool buffers = false;

  template <class Socket>
  static int take_over(Socket&& socket) {
    return socket.release();
  }

  static socket_result write(int socket, const std::byte* from, std::size_t bytes) noexcept {
    return socket_write(socket, from, bytes);
  }
  static socket_result write(int socket, iovec* from, std::size_t parts) noexcept {
    return socket_write(socket, from, parts);
  }
  static socket_result read(int socket, std::byte* to, std::size_t bytes) noexcept {
    return socket_read(socket, to, bytes);
  }
  static socket_result read(int socket, iovec* to, std::size_t parts) noexcept {
    return socket_read(socket, to, parts);
  }
  /// Bytes that the system has got and given, where the connection has counted so many itself.
  static constexpr std::uint64_t written(std::uint64_t counted) { return counted; }
  static constexpr std::uint64_t received(std::uint64_t counted) { return counted; }
  static constexpr bool holds() { return false; }
  static constexpr bool owes() { return false; }
  static constexpr int flush() { return 0; }
  static void finish(int socket) noexcept { ::shutdown(socket, SHUT_WR); }
  static void close() noexcept {}
  static std::string what(int error) { return std::generic_category().message(error); }
};

}  // namespace tutti::detail
