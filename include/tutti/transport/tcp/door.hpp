// SPDX-License-Identifier: BSL-1.0
#pragma once

// Data connections: one for each pair of ranks that has something to say, made when it has.

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/dial.hpp>
#include <tutti/transport/tcp/gate.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/retry.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Lets data connections in and makes them, on the service thread, as long as the group lives. Calls, on that thread:
/// - `owner.established(int peer, asio::ip::tcp::socket&& socket)`: once for each peer; non-blocking, TCP_NODELAY,
///   nothing of it read yet;
/// - `owner.cannot_connect(int peer, const std::string& why)`: a connection that was wanted could not be made within
///   `start_timeout`.
///
/// Where two ranks connect to each other at the same time, the connection of the lower one stays: it answers `yield` to
/// the other's, if its own hello is on the way, and the higher one takes it in place of its own. A rank never gives up
/// an attempt whose hello it has sent, so both know the same. Who was told to yield asks again after a while, in case
/// the way from the other does not lead here.
///
/// Handlers hold what they use, and nothing is left of it when they have run. They throw only what `owner` throws, and
/// std::bad_alloc: it comes out of `io.run()`.
template <class Owner>
class tcp_door {
 public:
  tcp_door(asio::io_context& io, const tcp_options& options, tcp_membership& membership, Owner& owner,
           const tcp_settings& settings = {})
      : state_(std::make_shared<state>(io, options, membership, owner, settings)) {}
  tcp_door(const tcp_door&) = delete;
  tcp_door& operator=(const tcp_door&) = delete;
  ~tcp_door() { close(); }

  /// Begins to let connections in.
  void start() { state_->start(); }
  /// A connection to that rank is wanted; any thread, any number of times.
  void connect(int peer) {
    asio::post(state_->io, [kept = state_, peer] { kept->want(peer); });
  }
  /// Cancels everything; on the service thread, or when it has ended. The owner is not called any more after that.
  void close() noexcept { state_->close(); }
  /// Connections that were dropped since they were none of this job's; any thread.
  std::uint64_t strangers() const { return state_->gate.strangers(); }

 private:
  /// The wish for a connection.
  struct wish {
    explicit wish(asio::io_context& io) : pause(io), limit(io) {}
    std::shared_ptr<tcp_dial> dial;
    asio::steady_timer pause;
    asio::steady_timer limit;
    retry_pauses pauses;
    std::string trouble = "no answer";
  };
  using wish_pointer = std::shared_ptr<wish>;
  /// A connection that is to hear one thing, with what it is told.
  struct verdict {
    explicit verdict(asio::ip::tcp::socket&& connected) : socket(std::move(connected)) {}
    asio::ip::tcp::socket socket;
    std::array<std::byte, tcp_answer::bytes> frame{};
    std::string text;
  };
  using verdict_pointer = std::shared_ptr<verdict>;

  struct state : std::enable_shared_from_this<state> {
    state(asio::io_context& context, const tcp_options& o, tcp_membership& meeting, Owner& told,
          const tcp_settings& with)
        : io(context),
          options(o),
          membership(meeting),
          owner(told),
          settings(with),
          who(tcp_credentials::of(o.job, o.token)),
          gate(context, meeting.listener, who, with, *this),
          connected(meeting.members.size(), false),
          wishes(meeting.members.size()) {}

    void start() {
      if (membership.listener.is_open()) gate.start();
    }
    void close() noexcept {
      if (closed) return;
      closed = true;
      gate.stop();
      for (wish_pointer& w : wishes) forget(w);
      asio::error_code ignored;
      for (const verdict_pointer& v : verdicts) v->socket.close(ignored);
    }

    tcp_member& member(int rank) { return membership.members[static_cast<std::size_t>(rank)]; }
    wish_pointer& wish_for(int peer) { return wishes[static_cast<std::size_t>(peer)]; }
    bool is_peer(int rank) const { return rank >= 0 && rank < options.size && rank != options.rank; }
    bool current(int peer, const wish_pointer& w) { return !closed && wish_for(peer) == w; }

    void want(int peer) {
      if (closed || !is_peer(peer) || connected[static_cast<std::size_t>(peer)] || wish_for(peer)) return;
      const auto w = std::make_shared<wish>(io);
      wish_for(peer) = w;
      w->limit.expires_at(time_in(options.start_timeout));
      w->limit.async_wait([self = this->shared_from_this(), peer, w](const asio::error_code& cancelled) {
        if (cancelled || !self->current(peer, w)) return;
        self->fail(peer, message() << " for " << static_cast<long long>(self->options.start_timeout.count())
                                   << " ms: " << w->trouble);
      });
      const tcp_member& there = member(peer);
      if (there.network != member(options.rank).network && is_own_address(there.endpoint.address()))
        return fail(peer,
                    ": that is an address of this host too; give that rank another one (TUTTI_ADDRESS, "
                    "TUTTI_INTERFACE)");
      dial(peer, w);
    }
    void dial(int peer, const wish_pointer& w) {
      tcp_hello hello;
      hello.byte_order = settings.byte_order;
      hello.version = settings.version;
      hello.who = who;
      hello.kind = tcp_hello::kinds::data;
      hello.rank = options.rank;
      hello.size = options.size;
      hello.to = peer;
      hello.layout = settings.layout;
      hello.session = membership.session;
      TUTTI_FAULT_POINT("tcp.door.dial");
      w->dial = std::make_shared<tcp_dial>(io, member(peer).endpoint, hello);
      w->dial->start(std::chrono::milliseconds(0),
                     [self = this->shared_from_this(), peer, w](const asio::error_code& wrong) {
                       if (self->current(peer, w)) self->dialed(peer, w, wrong);
                     });
    }
    void dialed(int peer, const wish_pointer& w, const asio::error_code& wrong) {
      const std::shared_ptr<tcp_dial> made = std::exchange(w->dial, nullptr);
      if (wrong) {
        w->trouble = is_shortage(wrong) ? shortage_text(wrong) : wrong.message();
        return try_again(peer, w, w->pauses.next());
      }
      const tcp_answer answer = made->answer();
      if (answer.fits(who) && answer.kind == tcp_answer::kinds::accepted)
        return establish(peer, std::move(made->socket));
      if (answer.fits(who) && answer.kind == tcp_answer::kinds::yield) {
        w->trouble = "that rank wants to connect itself, and does not";
        return try_again(peer, w, std::chrono::milliseconds(200) + w->pauses.next());
      }
      w->trouble = "whoever listens there does not answer as that rank";
      try_again(peer, w, w->pauses.next());
    }
    void try_again(int peer, const wish_pointer& w, std::chrono::nanoseconds pause) {
      w->pause.expires_after(pause);
      w->pause.async_wait([self = this->shared_from_this(), peer, w](const asio::error_code&) {
        if (self->current(peer, w)) self->dial(peer, w);
      });
    }
    void forget(wish_pointer& w) noexcept {
      if (!w) return;
      if (w->dial) w->dial->give_up();
      w->pause.cancel();
      w->limit.cancel();
      w.reset();
    }
    void fail(int peer, const std::string& why) {
      forget(wish_for(peer));
      owner.cannot_connect(peer, tcp_text(options) << "no connection to rank " << peer << " at "
                                                   << endpoint_text(member(peer).endpoint) << why);
    }
    void establish(int peer, asio::ip::tcp::socket&& socket) {
      TUTTI_FAULT_POINT("tcp.door.establish");
      forget(wish_for(peer));
      connected[static_cast<std::size_t>(peer)] = true;
      asio::error_code ignored;
      socket.non_blocking(true, ignored);
      owner.established(peer, std::move(socket));
    }

    /// Called by the gate.
    void arrived(const tcp_hello& hello, asio::ip::tcp::socket&& socket) {
      if (closed) return;
      asio::error_code ignored;
      const asio::ip::tcp::endpoint from = socket.remote_endpoint(ignored);
      if (hello.kind == tcp_hello::kinds::join) {
        gate.count_stranger(from, "came to join when all ranks had come");
        return answer(refusal(hello, from), std::move(socket));
      }
      const bool ours = hello.kind == tcp_hello::kinds::data && hello.version == settings.version &&
                        equal_in_constant_time(hello.session.data(), membership.session.data(), hello.session.size()) &&
                        is_peer(hello.rank) && hello.to == options.rank;
      if (!ours) return gate.count_stranger(from, "is of another start of this job");
      const int peer = hello.rank;
      const wish_pointer w = wish_for(peer);
      const bool own_on_the_way = w && w->dial && w->dial->greeted() && options.rank < peer;
      if (connected[static_cast<std::size_t>(peer)] || own_on_the_way)
        return answer({tcp_answer(tcp_answer::kinds::yield, who), {}}, std::move(socket));
      const bool wanted = w != nullptr;
      forget(wish_for(peer));
      connected[static_cast<std::size_t>(peer)] = true;
      const verdict_pointer v = keep({tcp_answer(tcp_answer::kinds::accepted, who), {}}, std::move(socket));
      TUTTI_FAULT_POINT("tcp.door.accept");
      write(v, [self = this->shared_from_this(), v, peer, wanted](const asio::error_code& wrong) {
        if (!wrong) return self->establish(peer, std::move(v->socket));
        self->connected[static_cast<std::size_t>(peer)] = false;  // it will come again
        if (wanted) self->want(peer);
      });
    }
    std::pair<tcp_answer, std::string> refusal(const tcp_hello& hello, const asio::ip::tcp::endpoint& from) const {
      const failure reason{errc::mismatch, hello.rank,
                           message() << "tcp start: rank " << hello.rank << " (" << endpoint_text(unmapped(from))
                                     << ") comes when all " << options.size << " ranks have come"};
      return {tcp_answer::refusal(reason, who), reason.text};
    }
    verdict_pointer keep(std::pair<tcp_answer, std::string> what, asio::ip::tcp::socket&& socket) {
      const auto v = std::make_shared<verdict>(std::move(socket));
      v->frame = what.first.encode();
      v->text = std::move(what.second);
      verdicts.push_back(v);
      return v;
    }
    void answer(std::pair<tcp_answer, std::string> what, asio::ip::tcp::socket&& socket) {
      const verdict_pointer v = keep(std::move(what), std::move(socket));
      write(v, [v](const asio::error_code&) {
        asio::error_code ignored;
        v->socket.close(ignored);
      });
    }
    template <class Then>
    void write(const verdict_pointer& v, Then then) {
      const std::array<asio::const_buffer, 2> parts{asio::buffer(v->frame), asio::buffer(v->text)};
      asio::async_write(v->socket, parts,
                        [self = this->shared_from_this(), v, then = std::move(then)](const asio::error_code& wrong,
                                                                                     std::size_t) mutable {
                          self->verdicts.remove(v);
                          if (!self->closed) then(wrong);
                        });
    }

    asio::io_context& io;
    tcp_options options;
    tcp_membership& membership;
    Owner& owner;
    tcp_settings settings;
    tcp_credentials who;
    tcp_gate<state> gate;
    std::vector<bool> connected;
    std::vector<wish_pointer> wishes;  // by rank
    std::list<verdict_pointer> verdicts;
    bool closed = false;
  };

  std::shared_ptr<state> state_;
};

}  // namespace tutti::detail
