// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/transport/tcp/cancel.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/listener.hpp>
#include <tutti/transport/tcp/plain.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace tutti::detail {

/// One attempt to reach a rank: connects, makes the connection secure, says hello, and hears the first answer. Handlers
/// share it, so it may be given up at any time by `give_up()`; nothing is called then.
template <class Security>
struct tcp_dial : std::enable_shared_from_this<tcp_dial<Security>> {
  enum class stages { connecting, securing, greeting, answered };

  tcp_dial(asio::io_context& io, const asio::ip::tcp::endpoint& to, const tcp_hello& hello, const Security& how)
      : context(io), security(how), endpoint(to), socket(io), timer(io), said(hello.encode()) {}

  /// Calls `done(error)` when the answer is there, or it never will be. Each of the three steps, connecting, making the
  /// connection secure and waiting for the answer, may take `limit`.
  template <class Done>
  void start(std::chrono::nanoseconds limit, Done done) {
    asio::error_code wrong;
    open_socket(socket, endpoint.protocol(), wrong);
    if (wrong) {
      asio::post(context, [self = this->shared_from_this(), done = std::move(done), wrong]() mutable {
        if (!self->given_up) done(wrong);
      });
      return;
    }
    watch(limit);
    TUTTI_FAULT_POINT("tcp.dial.connect");
    socket.async_connect(
        endpoint, [self = this->shared_from_this(), limit, done = std::move(done)](asio::error_code failed) mutable {
          if (self->given_up) return;
          if (!failed) self->refuse_own_end(failed);
          if (failed) return self->end(failed, done);
          self->secure(limit, std::move(done));
        });
  }
  /// Time is up: `done` is called soon.
  void interrupt() noexcept {
    late = true;
    asio::error_code ignored;
    socket.close(ignored);
  }
  void give_up() noexcept {
    given_up = true;
    cancel(timer);
    asio::error_code ignored;
    socket.close(ignored);
  }
  bool greeted() const { return stage == stages::greeting || stage == stages::answered; }
  tcp_answer answer() const { return tcp_answer::decode(heard.data()); }

  asio::io_context& context;
  Security security;
  asio::ip::tcp::endpoint endpoint;
  typename Security::socket socket;
  asio::steady_timer timer;
  std::array<std::byte, tcp_hello::bytes> said;
  std::array<std::byte, tcp_answer::bytes> heard{};
  stages stage = stages::connecting;
  bool given_up = false;
  bool late = false;

 private:
  void watch(std::chrono::nanoseconds limit) {
    timer.expires_after(limit);
    timer.async_wait([self = this->shared_from_this()](const asio::error_code& cancelled) {
      if (!cancelled && !self->given_up && self->stage != stages::answered) self->interrupt();
    });
  }
  /// Where nobody listens at a port that the system gives to those who connect, it may give that one: then a socket is
  /// connected with itself.
  void refuse_own_end(asio::error_code& failed) {
    asio::error_code wrong;
    const asio::ip::tcp::endpoint here = socket.local_endpoint(wrong);
    if (!wrong && here == endpoint) failed = asio::error::connection_refused;
  }
  template <class Done>
  void secure(std::chrono::nanoseconds limit, Done done) {
    stage = stages::securing;
    asio::error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    watch(limit);
    security.async_secure(
        socket, tcp_side::client,
        [self = this->shared_from_this(), limit, done = std::move(done)](asio::error_code wrong) mutable {
          if (self->given_up) return;
          if (wrong) return self->end(wrong, done);
          self->greet(limit, std::move(done));
        });
  }
  template <class Done>
  void greet(std::chrono::nanoseconds limit, Done done) {
    stage = stages::greeting;
    watch(limit);
    TUTTI_FAULT_POINT("tcp.dial.greet");
    asio::async_write(
        socket, asio::buffer(said),
        [self = this->shared_from_this(), done = std::move(done)](const asio::error_code& wrong, std::size_t) mutable {
          if (self->given_up) return;
          if (wrong) return self->end(wrong, done);
          self->hear(std::move(done));
        });
  }
  template <class Done>
  void hear(Done done) {
    asio::async_read(
        socket, asio::buffer(heard),
        [self = this->shared_from_this(), done = std::move(done)](const asio::error_code& wrong, std::size_t) mutable {
          if (self->given_up) return;
          TUTTI_FAULT_POINT("tcp.dial.answered");
          if (!wrong) self->stage = stages::answered;
          self->end(wrong, done);
        });
  }
  template <class Done>
  void end(asio::error_code wrong, Done& done) {
    timer.cancel();
    if (wrong) {
      asio::error_code ignored;
      socket.close(ignored);
    }
    done(wrong && late ? asio::error_code(asio::error::timed_out) : wrong);
  }
};

}  // namespace tutti::detail
