// SPDX-License-Identifier: BSL-1.0
#pragma once

// Who is let in: connections that say within 2 s that they belong to the job.

#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/cancel.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/listener.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

namespace tutti::detail {

/// Accepts connections and reads their hello. `keeper.arrived(const tcp_hello&, Security::socket&&)` gets those
/// that know job and token; all others are dropped without a word, and counted. Whatever they send, each costs less
/// than a kilobyte (under TLS less than 64, once it begins to shake hands), and at most `most_pending` of them are
/// there at a time. Where the system has no descriptors left, those go first that have not said who they are; then it
/// tries again from time to time.
///
/// All on the thread that runs the io_context. Handlers hold what they use, so it may be destroyed at any time.
template <class Keeper, class Security = tcp_plain>
class tcp_gate {
 public:
  tcp_gate(asio::io_context& io, tcp_listener& listener, const tcp_credentials& who, const tcp_settings& settings,
           Keeper& keeper, const Security& security = {})
      : state_(std::make_shared<state>(io, listener, who, settings, keeper, security)) {}
  tcp_gate(const tcp_gate&) = delete;
  tcp_gate& operator=(const tcp_gate&) = delete;
  ~tcp_gate() { stop(); }

  void start() { state_->wait(); }
  /// Accepts nothing more, and drops those that have not said who they are. The listener stays open.
  void stop() noexcept { state_->stop(); }
  /// Counts one that knows job and token, but is none of ours all the same.
  void count_stranger(const asio::ip::tcp::endpoint& from, const char* why) { state_->count(from, why); }
  /// How many were dropped; any thread.
  std::uint64_t strangers() const { return state_->strangers.load(std::memory_order_relaxed); }
  /// "10.0.0.1:4711 is of another job or has another token": the last that spoke as a rank does; empty if none did.
  const std::string& last_stranger() const { return state_->last; }
  /// Why the system refuses connections now, if it does.
  asio::error_code shortage() const { return state_->shortage; }

 private:
  struct visitor {
    explicit visitor(asio::io_context& io) : socket(io) {}
    typename Security::socket socket;
    std::array<std::byte, tcp_hello::bytes> hello;
    std::chrono::steady_clock::time_point until;
    bool gone = false;
    typename std::list<std::shared_ptr<visitor>>::iterator place;
  };
  using visitor_pointer = std::shared_ptr<visitor>;

  struct state : std::enable_shared_from_this<state> {
    state(asio::io_context& context, tcp_listener& where, const tcp_credentials& known, const tcp_settings& with,
          Keeper& told, const Security& how)
        : io(context),
          listener(&where),
          who(known),
          settings(with),
          keeper(&told),
          security(how),
          limit(context),
          pause(context) {}

    void wait() {
      if (stopped) return;
      listener->acceptor().async_wait(asio::ip::tcp::acceptor::wait_read,
                                      [self = this->shared_from_this()](const asio::error_code& wrong) {
                                        if (self->stopped) return;
                                        if (wrong) return self->wait_a_moment();
                                        if (self->pending.size() < self->settings.most_pending) return self->accept();
                                        // What they have said meanwhile is heard first.
                                        asio::post(self->io, [self] { self->accept(); });
                                      });
    }
    void wait_a_moment() {
      pause.expires_after(std::chrono::milliseconds(20));
      pause.async_wait([self = this->shared_from_this()](const asio::error_code&) {
        if (!self->stopped) self->accept();
      });
    }
    void accept() {
      const std::size_t free = settings.most_pending - pending.size();
      for (std::size_t served = 0; served < (free == 0 ? 1 : free) && !stopped; ++served) {
        asio::error_code wrong;
        descriptor_owner taken = listener->accept(wrong);
        if (taken) {
          TUTTI_FAULT_POINT("tcp.gate.accepted");
          admit(std::move(taken), wrong);
        }
        if (!wrong) {
          shortage.clear();
          continue;
        }
        if (wrong == asio::error::would_block || wrong == asio::error::try_again) break;
        // Other errors are of the one connection, which has gone again, and wait for nobody.
        if (!is_shortage(wrong)) continue;
        shortage = wrong;
        if (pending.empty()) return wait_a_moment();
        drop(pending.front());
      }
      wait();
    }
    void admit(descriptor_owner taken, asio::error_code& wrong) {
      const auto v = std::make_shared<visitor>(io);
      const bool six = listener->local_endpoint().address().is_v6();
      v->socket.assign(six ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), taken.get(), wrong);
      if (wrong) return;
      taken.release();
      while (pending.size() >= settings.most_pending) drop(pending.front());
      v->until = std::chrono::steady_clock::now() + settings.handshake_limit;
      v->place = pending.insert(pending.end(), v);
      if (pending.size() == 1) watch_limit();
      security.async_secure(v->socket, tcp_side::server,
                            [self = this->shared_from_this(), v](const asio::error_code& insecure) {
                              if (v->gone || self->stopped) return;
                              if (insecure) return self->refuse(v, self->security.objection(v->socket));
                              self->read(v, 0, sizeof(std::uint64_t));
                            });
    }
    /// Those that came first have the least time left.
    void watch_limit() {
      if (pending.empty()) return;
      limit.expires_at(pending.front()->until);
      limit.async_wait([self = this->shared_from_this()](const asio::error_code& cancelled) {
        if (cancelled || self->stopped) return;
        const auto now = std::chrono::steady_clock::now();
        while (!self->pending.empty() && self->pending.front()->until <= now) self->drop(self->pending.front());
        self->watch_limit();
      });
    }
    void read(const visitor_pointer& v, std::size_t from, std::size_t to) {
      asio::async_read(v->socket, asio::buffer(v->hello.data() + from, to - from),
                       [self = this->shared_from_this(), v, to](const asio::error_code& wrong, std::size_t) {
                         if (v->gone || self->stopped) return;
                         if (wrong) return self->drop(v);
                         if (!tcp_hello::begins(v->hello.data())) {
                           const char* const why = Security::objection(v->hello.data());
                           return self->refuse(v, why == nullptr ? "" : why);
                         }
                         if (to < tcp_hello::bytes) return self->read(v, to, tcp_hello::bytes);
                         self->hear(v);
                       });
    }
    void hear(const visitor_pointer& v) {
      TUTTI_FAULT_POINT("tcp.gate.hello");
      const tcp_hello hello = tcp_hello::decode(v->hello.data());
      if (!hello.who.equal(who)) return refuse(v, "is of another job or has another token");
      asio::error_code ignored;
      forget(v);
      v->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      keeper->arrived(hello, std::move(v->socket));
    }
    void refuse(const visitor_pointer& v, const std::string& why) {
      asio::error_code ignored;
      if (!why.empty()) last = message() << endpoint_text(unmapped(v->socket.remote_endpoint(ignored))) << " " << why;
      drop(v);
    }
    void forget(const visitor_pointer& v) {
      v->gone = true;
      const auto place = v->place;  // `v` may be the pointer in the list
      pending.erase(place);
    }
    void drop(visitor_pointer v) noexcept {
      forget(v);
      asio::error_code ignored;
      // A reset: nothing of it is to stay here, not even for the minute that an end takes.
      v->socket.set_option(asio::socket_base::linger(true, 0), ignored);
      v->socket.close(ignored);
      strangers.fetch_add(1, std::memory_order_relaxed);
    }
    void count(const asio::ip::tcp::endpoint& from, const char* why) {
      last = message() << endpoint_text(unmapped(from)) << " " << why;
      strangers.fetch_add(1, std::memory_order_relaxed);
    }
    void stop() noexcept {
      if (stopped) return;
      stopped = true;
      asio::error_code ignored;
      listener->acceptor().cancel(ignored);
      while (!pending.empty()) drop(pending.front());
      cancel(limit);
      cancel(pause);
    }

    asio::io_context& io;
    tcp_listener* listener;
    tcp_credentials who;
    tcp_settings settings;
    Keeper* keeper;
    Security security;
    asio::steady_timer limit;
    asio::steady_timer pause;
    std::list<visitor_pointer> pending;  // the oldest first
    std::atomic<std::uint64_t> strangers{0};
    std::string last;
    asio::error_code shortage;
    bool stopped = false;
  };

  std::shared_ptr<state> state_;
};

}  // namespace tutti::detail
