// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/listener.hpp>
#include <tutti/transport/tcp/tls_session.hpp>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include <sys/socket.h>
#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// A TCP socket over which TLS is spoken once it has shaken hands: as far as the start and the control plane use them,
/// it is like a socket of Asio. One thread at a time; handlers are never called by the function that takes them.
class tcp_tls_socket {
  using lower_socket = asio::ip::tcp::socket;

 public:
  using executor_type = lower_socket::executor_type;
  using endpoint = asio::ip::tcp::endpoint;

  explicit tcp_tls_socket(asio::io_context& io) : state_(std::make_shared<state>(io)) {}
  tcp_tls_socket(tcp_tls_socket&& other) noexcept = default;
  tcp_tls_socket& operator=(tcp_tls_socket&& other) noexcept {
    if (this != &other) forget();
    state_ = std::move(other.state_);
    return *this;
  }
  /// What is under way ends with `operation_aborted`.
  ~tcp_tls_socket() { forget(); }

  // ---- What a socket of Asio does

  executor_type get_executor() { return state_->lower.get_executor(); }
  bool is_open() const { return state_ != nullptr && state_->lower.is_open(); }
  int native_handle() { return state_->lower.native_handle(); }
  void assign(const asio::ip::tcp& protocol, int descriptor, asio::error_code& wrong) {
    state_->lower.assign(protocol, descriptor, wrong);
  }
  template <class Option>
  void set_option(const Option& option, asio::error_code& wrong) {
    state_->lower.set_option(option, wrong);
  }
  void non_blocking(bool yes, asio::error_code& wrong) { state_->lower.non_blocking(yes, wrong); }
  endpoint local_endpoint(asio::error_code& wrong) const { return state_->lower.local_endpoint(wrong); }
  endpoint remote_endpoint(asio::error_code& wrong) const { return state_->lower.remote_endpoint(wrong); }
  std::size_t available(asio::error_code& wrong) const {
    return state_->lower.available(wrong) + (state_->session != nullptr && state_->session->holds() ? 1 : 0);
  }
  void cancel(asio::error_code& wrong) {
    if (state_ != nullptr) state_->lower.cancel(wrong);
  }
  void close(asio::error_code& wrong) {
    if (state_ != nullptr) state_->lower.close(wrong);
  }
  /// What is encrypted and not sent yet goes before the end.
  void shutdown(lower_socket::shutdown_type what, asio::error_code& wrong) {
    if (state_ == nullptr) return;
    if (state_->session != nullptr) state_->session->finish();
    if (what == lower_socket::shutdown_send && state_->session != nullptr && state_->session->unflushed()) {
      state_->ends = true;
      state_->flush_later();
    } else {
      state_->lower.shutdown(what, wrong);
    }
  }
  template <class Handler>
  void async_connect(const endpoint& to, Handler&& handler) {
    state_->lower.async_connect(to, std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_wait(lower_socket::wait_type what, Handler&& handler) {
    state_->lower.async_wait(what, std::forward<Handler>(handler));
  }

  // ---- TLS

  /// How far the handshake has come, for those who ask what went wrong.
  enum class greetings { none, begun, by_plain_rank, by_stranger, done };

  /// Shakes hands over the connection. What a stranger costs begins only when it says something that may be TLS.
  template <class Handler>
  void async_handshake(SSL_CTX* context, bool server, Handler&& handler) {
    if (server) {
      state_->await_first(context, std::decay_t<Handler>(std::forward<Handler>(handler)));
    } else {
      state_->begin(context, false);
      asio::post(get_executor(), [s = state_, h = std::decay_t<Handler>(std::forward<Handler>(handler))]() mutable {
        s->shake_hands(std::move(h));
      });
    }
  }
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    asio::mutable_buffer to;
    for (auto i = asio::buffer_sequence_begin(buffers); i != asio::buffer_sequence_end(buffers) && to.size() == 0; ++i)
      to = *i;
    asio::post(get_executor(), [s = state_, to, h = std::decay_t<Handler>(std::forward<Handler>(handler))]() mutable {
      s->read(to, std::move(h));
    });
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    asio::const_buffer from;
    for (auto i = asio::buffer_sequence_begin(buffers); i != asio::buffer_sequence_end(buffers) && from.size() == 0;
         ++i)
      from = *i;
    asio::post(get_executor(), [s = state_, from, h = std::decay_t<Handler>(std::forward<Handler>(handler))]() mutable {
      s->write(from, 0, std::move(h));
    });
  }

  greetings greeting() const { return state_ == nullptr ? greetings::none : state_->greeting; }
  /// Null before the handshake has begun.
  tls_session* session() const { return state_ == nullptr ? nullptr : state_->session.get(); }
  /// Gives away what is above the descriptor, and the descriptor. Nothing may be under way.
  std::unique_ptr<tls_session> take_session() { return std::move(state_->session); }
  int release() { return state_->lower.release(); }

 private:
  struct state : std::enable_shared_from_this<state> {
    explicit state(asio::io_context& io) : lower(io) {}

    void begin(SSL_CTX* context, bool server) {
      greeting = greetings::begun;
      session = std::make_unique<tls_session>(context, lower.native_handle(), server, 1);
    }
    /// Whoever does not begin like TLS is not worth a session.
    template <class Handler>
    void await_first(SSL_CTX* context, Handler h) {
      lower.async_wait(lower_socket::wait_read, [s = this->shared_from_this(), context,
                                                 h = std::move(h)](const asio::error_code& wrong) mutable {
        if (wrong) return h(wrong);
        std::array<std::byte, sizeof hello_magic> first{};
        const ssize_t got = ::recv(s->lower.native_handle(), first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && socket_outcome(got).error == 0) return s->await_first(context, std::move(h));
        if (got > 0 && first[0] == std::byte{SSL3_RT_HANDSHAKE}) {
          s->begin(context, true);
          return s->shake_hands(std::move(h));
        }
        const bool rank = got == static_cast<ssize_t>(first.size()) && tcp_hello::begins(first.data());
        s->greeting = rank ? greetings::by_plain_rank : greetings::by_stranger;
        h(got == 0 ? asio::error_code(asio::error::eof) : asio::error_code(asio::error::connection_refused));
      });
    }
    template <class Handler>
    void shake_hands(Handler h) {
      if (!lower.is_open()) return h(asio::error_code(asio::error::operation_aborted));
      const tls_session::steps step = session->handshake();
      if (step == tls_session::steps::failed) return h(trouble());
      const bool writes = session->unflushed();
      if (step == tls_session::steps::done && !writes) {
        greeting = greetings::done;
        return h(asio::error_code());
      }
      lower.async_wait(writes ? lower_socket::wait_write : lower_socket::wait_read,
                       [s = this->shared_from_this(), h = std::move(h)](const asio::error_code& wrong) mutable {
                         if (wrong) return h(wrong);
                         s->shake_hands(std::move(h));
                       });
    }
    template <class Handler>
    void read(const asio::mutable_buffer& to, Handler h) {
      if (!lower.is_open()) return h(asio::error_code(asio::error::operation_aborted), 0);
      const socket_result got = session->read(static_cast<std::byte*>(to.data()), to.size());
      if (got.bytes != 0 || to.size() == 0) return h(asio::error_code(), got.bytes);
      if (got.ended || got.error != 0) return h(trouble(), 0);
      flush_later();
      lower.async_wait(lower_socket::wait_read,
                       [s = this->shared_from_this(), to, h = std::move(h)](const asio::error_code& wrong) mutable {
                         if (wrong) return h(wrong, 0);
                         s->read(to, std::move(h));
                       });
    }
    template <class Handler>
    void write(const asio::const_buffer& from, std::size_t taken, Handler h) {
      if (!lower.is_open()) return h(asio::error_code(asio::error::operation_aborted), 0);
      session->flush();
      if (taken == 0 && session->has_room()) {
        taken = from.size() < tls_session::record_bytes ? from.size() : tls_session::record_bytes;
        if (taken != 0) session->encrypt(static_cast<const std::byte*>(from.data()), taken);
        session->flush();
      }
      if (session->error() != 0) {
        session->peek();  // why the other end has closed the connection may be there to be read
        return h(trouble(), 0);
      }
      if (!session->unflushed()) return h(asio::error_code(), taken);
      lower.async_wait(lower_socket::wait_write, [s = this->shared_from_this(), from, taken,
                                                  h = std::move(h)](const asio::error_code& wrong) mutable {
        if (wrong) return h(wrong, 0);
        s->write(from, taken, std::move(h));
      });
    }
    asio::error_code trouble() const {
      if (session->error() == 0) return asio::error::eof;
      return system_error_code(session->error());
    }
    /// What is encrypted and has no operation of its own.
    void flush_later() {
      if (flushing || !session->unflushed()) return;
      flushing = true;
      lower.async_wait(lower_socket::wait_write, [s = this->shared_from_this()](const asio::error_code& wrong) {
        s->flushing = false;
        if (wrong || s->session == nullptr) return;
        s->session->flush();
        if (s->session->error() == 0 && s->session->unflushed()) return s->flush_later();
        asio::error_code ignored;
        if (s->ends) s->lower.shutdown(lower_socket::shutdown_send, ignored);
      });
    }

    lower_socket lower;
    std::unique_ptr<tls_session> session;
    greetings greeting = greetings::none;
    bool flushing = false;
    bool ends = false;
  };

  void forget() noexcept {
    asio::error_code ignored;
    if (state_ != nullptr) state_->lower.close(ignored);
  }

  std::shared_ptr<state> state_;
};

}  // namespace tutti::detail
