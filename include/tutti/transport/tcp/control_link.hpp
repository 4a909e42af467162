// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/transport/tcp/control_message.hpp>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>

#include <fcntl.h>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// One control connection, on the service thread: takes messages out of what arrives, and writes them in the order in
/// which they are sent, however slowly that goes. `Owner` is told, on that thread:
///
/// - `heard(rank, message)`: a message has come; false if it is none that may come;
/// - `lost(rank, nonsense)`: the connection has ended, or what comes is no message; once, and not after `finish()`;
/// - `rested()`: `shut_down()` or, after `finish()`, `ended()` has become true.
///
/// Stays where it is until nothing runs the io_context any more.
template <class Owner, class Socket = asio::ip::tcp::socket>
class tcp_control_link {
  using clock = std::chrono::steady_clock;

 public:
  tcp_control_link(Socket socket, int rank, Owner& owner)
      : socket_(std::move(socket)), owner_(&owner), rank_(rank), heard_(clock::now()), spoke_(heard_) {}
  tcp_control_link(const tcp_control_link&) = delete;
  tcp_control_link& operator=(const tcp_control_link&) = delete;

  void start() {
    asio::error_code ignored;
    socket_.non_blocking(true, ignored);
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
    heard_ = spoke_ = clock::now();
    read();
  }

  void send(const control_message& m) {
    if (finishing_ || closed_) return;
    const std::size_t before = queued_.size();
    try {
      write_control(queued_, m);
    } catch (...) {
      queued_.resize(before);
      throw;
    }
    spoke_ = clock::now();
    if (writing_.empty()) write();
  }
  /// After what has been sent nothing follows: the other end is told so once it is written. What still comes is read
  /// and forgotten, so that the system need not reset the connection, until the other end does the same.
  void finish() {
    finishing_ = true;
    if (writing_.empty() && queued_.empty()) shut();
  }
  /// All that was sent before `finish()` is written, and the other end has been told so.
  bool shut_down() const { return closed_ || shut_; }
  /// Nothing more can be heard: the other end has said its last.
  bool ended() const { return closed_ || ended_; }

  void close() noexcept {
    closed_ = true;
    asio::error_code ignored;
    // Also where a process that was forked has a copy of the descriptor.
    socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

  int rank() const { return rank_; }
  int descriptor() { return socket_.native_handle(); }
  /// When something came last, and when something was sent last.
  clock::time_point heard() const { return heard_; }
  clock::time_point spoke() const { return spoke_; }
  /// Takes it for heard now.
  void excuse() { heard_ = clock::now(); }
  /// Whether something has come that has not been read yet.
  bool has_news() {
    asio::error_code wrong;
    return !closed_ && socket_.available(wrong) != 0;
  }

 private:
  // Where there is no memory to go on reading nothing more can be heard; where there is none to write, the other end is
  // to see that nothing more comes.
  void read() {
    try {
      read_some();
    } catch (...) {
      ended_ = true;
      throw;
    }
  }
  void read_some() {
    socket_.async_read_some(asio::buffer(arrived_), [this](const asio::error_code& wrong, std::size_t bytes) {
      if (closed_) return;
      if (wrong) {
        lose(false);
        return;
      }
      heard_ = clock::now();
      bool fits = true;
      const bool sound = finishing_ || stream_.take({arrived_.data(), bytes}, [&](control_message& m) {
        if (fits) fits = owner_->heard(rank_, m);
        return fits && !closed_ && !finishing_;
      });
      if (closed_) return;
      if (!sound || !fits) {
        lose(true);
        return;
      }
      read();
    });
  }
  void write() {
    writing_.swap(queued_);
    written_ = 0;
    write_rest();
  }
  void write_rest() {
    try {
      write_some();
    } catch (...) {
      closed_ = true;
      asio::error_code ignored;
      socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
      throw;
    }
  }
  void write_some() {
    socket_.async_write_some(asio::buffer(writing_.data() + written_, writing_.size() - written_),
                             [this](const asio::error_code& wrong, std::size_t bytes) {
                               if (closed_) return;
                               if (wrong) {
                                 give_up_writing();
                                 return;
                               }
                               written_ += bytes;
                               if (written_ < writing_.size()) {
                                 write_rest();
                                 return;
                               }
                               writing_.clear();
                               if (!queued_.empty()) {
                                 write();
                               } else if (finishing_) {
                                 shut();
                               }
                             });
  }
  // Reading tells how the connection has ended; what had come before is still to be read.
  void give_up_writing() {
    writing_.clear();
    queued_.clear();
    if (finishing_) shut();
  }
  void shut() {
    if (std::exchange(shut_, true) || closed_) return;
    asio::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    owner_->rested();
  }
  void lose(bool nonsense) {
    ended_ = true;
    if (finishing_) {
      owner_->rested();
    } else {
      owner_->lost(rank_, nonsense);
    }
  }

  Socket socket_;
  Owner* owner_;
  int rank_;
  clock::time_point heard_;
  clock::time_point spoke_;
  control_stream stream_;
  std::array<char, 4096> arrived_;
  std::string queued_;
  std::string writing_;
  std::size_t written_ = 0;
  bool finishing_ = false;
  bool shut_ = false;
  bool ended_ = false;
  bool closed_ = false;
};

}  // namespace tutti::detail
