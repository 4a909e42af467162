// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/socket_io.hpp>
#include <tutti/transport/tcp/tls_session.hpp>

#include <sys/socket.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace tutti::detail {

/// How the thread of a rank moves the bytes of a data connection: encrypted. Bytes that were taken and not sent yet are
/// reported as written but for the last one: so whoever writes knows that the frame is under way, and comes again.
class tcp_tls_wire {
 public:
  static constexpr bool buffers = true;

  template <class Socket>
  int take_over(Socket&& socket) {
    gathered_ = owned_array<std::byte>(tls_session::record_bytes, "what TLS encrypts");
    session_ = socket.take_session();
    return socket.release();
  }

  socket_result write(int socket, const std::byte* from, std::size_t bytes) noexcept {
    iovec part{const_cast<std::byte*>(from), bytes};  // NOLINT: it is only read
    return write(socket, &part, 1);
  }
  socket_result write(int, iovec* from, std::size_t parts) noexcept {
    socket_result result;
    places left{from, from + parts};
    if (owing_) {
      result.error = session_->flush();
      if (result.error != 0 || session_->unflushed()) return result;
      owing_ = false;
      left.skip(1);
      result.bytes = 1;
    }
    while (left.more()) {
      if (!session_->has_room()) session_->flush();
      if (!session_->has_room()) break;
      const auto [data, bytes] = record(left);
      if (!session_->encrypt(data, bytes)) break;
      result.bytes += bytes;
    }
    session_->flush();
    result.error = session_->error();
    if (session_->unflushed() && result.error == 0 && result.bytes != 0) {
      owing_ = true;
      --result.bytes;
    }
    return result;
  }
  socket_result read(int, std::byte* to, std::size_t bytes) noexcept { return session_->read(to, bytes); }
  socket_result read(int socket, iovec* to, std::size_t parts) noexcept {
    socket_result result;
    for (std::size_t i = 0; i < parts; ++i) {
      const socket_result got = read(socket, static_cast<std::byte*>(to[i].iov_base), to[i].iov_len);
      result = {result.bytes + got.bytes, got.error, got.ended};
      if (got.bytes < to[i].iov_len || got.error != 0 || got.ended) break;
    }
    return result;
  }
  /// Encrypted ones, since what is written here may not be sent yet.
  std::uint64_t written(std::uint64_t) const { return session_->bytes_sent(); }
  std::uint64_t received(std::uint64_t) const { return session_->bytes_received(); }
  bool holds() const { return session_->holds(); }
  bool owes() const { return session_->unflushed(); }
  int flush() noexcept { return session_->flush(); }
  void finish(int socket) noexcept {
    session_->finish();
    ::shutdown(socket, SHUT_WR);
  }
  void close() noexcept { session_.reset(); }
  std::string what(int) const { return session_->what(); }
  tls_session& session() { return *session_; }

 private:
  /// What is left to be written.
  struct places {
    iovec* next;
    iovec* end;

    bool more() {
      while (next != end && next->iov_len == 0) ++next;
      return next != end;
    }
    const std::byte* data() const { return static_cast<const std::byte*>(next->iov_base); }
    void skip(std::size_t bytes) {
      next->iov_base = static_cast<std::byte*>(next->iov_base) + bytes;
      next->iov_len -= bytes;
    }
  };

  /// The next record: where it lies, or else copied together, so that a header has none of its own.
  std::pair<const std::byte*, std::size_t> record(places& left) noexcept {
    constexpr std::size_t most = tls_session::record_bytes;
    if (left.next->iov_len >= most || left.next + 1 == left.end) {
      const std::size_t bytes = left.next->iov_len < most ? left.next->iov_len : most;
      const std::byte* const data = left.data();
      left.skip(bytes);
      return {data, bytes};
    }
    std::size_t bytes = 0;
    while (bytes != most && left.more()) {
      const std::size_t part = left.next->iov_len < most - bytes ? left.next->iov_len : most - bytes;
      std::memcpy(gathered_.data() + bytes, left.data(), part);
      bytes += part;
      left.skip(part);
    }
    return {gathered_.data(), bytes};
  }

  std::unique_ptr<tls_session> session_;
  owned_array<std::byte> gathered_;
  bool owing_ = false;  // the last byte that was taken has not been reported as written
};

}  // namespace tutti::detail
