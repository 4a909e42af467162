// SPDX-License-Identifier: BSL-1.0
#pragma once

// Data connections: one for each pair of ranks that has something to say, made when it has.

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/cancel.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/dial.hpp>
#include <tutti/transport/tcp/gate.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/retry.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Lets data connections in and makes them, on the service thread, as long as the group lives. Calls, on that thread:
/// - `owner.established(int peer, Security::socket&& socket)`: once for each peer; non-blocking, TCP_NODELAY,
///   nothing of it read yet;
/// - `owner.cannot_connect(int peer, const std::string& why)`: a connection that was wanted could not be made within
///   `start_timeout`.
///
/// Who connects says hello, is told `accepted`, and says so too: only then both take the connection, so whoever
/// connects may give up an attempt before, and make another. Where two ranks connect to each other at the same time,
/// the connection of the lower one stays: it answers `yield` to the other's if its own hello is on the way, and the
/// higher one takes it in place of its own. Who was told to yield asks again after a while, in case the way from the
/// other does not lead here.
///
/// Handlers hold what they use, and nothing is left of it when they have run. They throw only what `owner` throws, and
/// std::bad_alloc: it comes out of `io.run()`.
template <class Owner, class Security = tcp_plain>
class tcp_door {
 public:
  using socket = typename Security::socket;
  using membership_type = basic_tcp_membership<socket>;

  tcp_door(asio::io_context& io, const tcp_options& options, membership_type& membership, Owner& owner,
           const tcp_settings& settings = {}, const Security& security = {})
      : state_(std::make_shared<state>(io, options, membership, owner, settings, security)) {}
  tcp_door(const tcp_door&) = delete;
  tcp_door& operator=(const tcp_door&) = delete;
  ~tcp_door() { close(); }

  /// Begins to let connections in.
  void start() { state_->start(); }
  /// A connection to that rank is wanted; any thread, any number of times.
  void connect(int peer) {
    asio::post(state_->io, [kept = state_, peer] { kept->want(peer); });
  }
  /// Whether a connection from that rank has been accepted that it may have confirmed, and used, without that having
  /// come here yet. On the service thread.
  bool expects(int peer) const { return state_->at(peer).theirs != nullptr; }
  /// Cancels everything; on the service thread, or when it has ended. The owner is not called any more after that.
  void close() noexcept { state_->close(); }
  /// Connections that were dropped since they were none of this job's; any thread.
  std::uint64_t strangers() const { return state_->gate.strangers(); }
  /// What the system has too little of for one more connection, as far as it was tried; empty if nothing. On the
  /// service thread.
  std::string shortage() const {
    const asio::error_code wrong = state_->gate.shortage();
    return wrong ? shortage_text(wrong) : state_->shortage;
  }

 private:
  /// Attempts to connect to a rank.
  struct attempts {
    attempts(asio::io_context& io, std::chrono::milliseconds patience) : times(patience), pause(io), limit(io) {}
    std::shared_ptr<tcp_dial<Security>> dial;
    retry_times times;
    asio::steady_timer pause;
    asio::steady_timer limit;
    std::string trouble = "no answer";
  };
  using attempts_pointer = std::shared_ptr<attempts>;
  /// A connection from a rank that has said hello: what it is told, and what it answers.
  struct visit {
    visit(asio::io_context& io, socket&& connected) : line(std::move(connected)), limit(io) {}
    socket line;
    asio::steady_timer limit;
    std::array<std::byte, tcp_answer::bytes> frame{};
    std::string text;
  };
  using visit_pointer = std::shared_ptr<visit>;
  struct neighbour {
    bool wanted = false;
    bool connected = false;
    attempts_pointer mine;  // this rank connects
    visit_pointer theirs;   // that rank has been accepted, and has not confirmed it yet
  };

  struct state : std::enable_shared_from_this<state> {
    state(asio::io_context& context, const tcp_options& o, membership_type& meeting, Owner& told,
          const tcp_settings& with, const Security& how)
        : io(context),
          options(o),
          membership(meeting),
          owner(told),
          settings(with),
          security(how),
          who(tcp_credentials::of(o.job, o.token)),
          gate(context, meeting.listener, who, with, *this, how),
          neighbours(meeting.members.size()) {}

    void start() {
      if (membership.listener.is_open()) gate.start();
    }
    void close() noexcept {
      if (closed) return;
      closed = true;
      gate.stop();
      for (neighbour& n : neighbours) give_up(n);
      for (const visit_pointer& v : leaving) close(*v);
      leaving.clear();
    }

    tcp_member& member(int rank) { return membership.members[static_cast<std::size_t>(rank)]; }
    neighbour& at(int rank) { return neighbours[static_cast<std::size_t>(rank)]; }
    bool is_peer(int rank) const { return rank >= 0 && rank < options.size && rank != options.rank; }

    // ---- This rank connects

    void want(int peer) {
      if (closed || !is_peer(peer)) return;
      neighbour& n = at(peer);
      n.wanted = true;
      if (n.connected || n.mine || n.theirs) return;
      n.mine = std::make_shared<attempts>(io, settings.patience);
      n.mine->limit.expires_at(time_in(options.start_timeout));
      n.mine->limit.async_wait([self = this->shared_from_this(), peer, a = n.mine](const asio::error_code& cancelled) {
        if (cancelled || self->at(peer).mine != a) return;
        self->fail(peer, message() << " for " << static_cast<long long>(self->options.start_timeout.count())
                                   << " ms: " << a->trouble);
      });
      const tcp_member& there = member(peer);
      if (there.network != member(options.rank).network && is_own_address(there.endpoint.address()))
        return fail(peer,
                    ": that is an address of this host too; give that rank another one (TUTTI_ADDRESS, "
                    "TUTTI_INTERFACE)");
      dial(peer);
    }
    void dial(int peer) {
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
      const attempts_pointer a = at(peer).mine;
      a->dial = std::make_shared<tcp_dial<Security>>(io, member(peer).endpoint, hello, security);
      a->dial->start(a->times.attempt(), [self = this->shared_from_this(), peer, a](const asio::error_code& wrong) {
        if (self->at(peer).mine == a) self->dialed(peer, wrong);
      });
    }
    void dialed(int peer, const asio::error_code& wrong) {
      attempts& a = *at(peer).mine;
      shortage = wrong && is_shortage(wrong) ? shortage_text(wrong) : std::string();
      if (wrong) {
        const std::string why = security.objection(a.dial->socket);
        a.trouble = !shortage.empty() ? shortage : why.empty() ? wrong.message() : why;
        return try_again(peer, a.times.pause());
      }
      const tcp_answer answer = a.dial->answer();
      if (answer.fits(who) && answer.kind == tcp_answer::kinds::accepted) return confirm(peer);
      if (answer.fits(who) && answer.kind == tcp_answer::kinds::yield) {
        a.trouble = "that rank wants to connect itself, and does not";
        return try_again(peer, std::chrono::milliseconds(200) + a.times.pause());
      }
      a.trouble = "whoever listens there does not answer as that rank";
      try_again(peer, a.times.pause());
    }
    void try_again(int peer, std::chrono::nanoseconds pause) {
      attempts_pointer a = at(peer).mine;
      a->dial->give_up();
      a->dial.reset();
      a->pause.expires_after(pause);
      a->pause.async_wait([self = this->shared_from_this(), peer, a](const asio::error_code&) {
        if (self->at(peer).mine == a) self->dial(peer);
      });
    }
    void confirm(int peer) {
      // From here on nothing else is accepted from that rank: this one is of both.
      at(peer).connected = true;
      const visit_pointer v =
          keep({tcp_answer(tcp_answer::kinds::accepted, who), {}}, std::move(at(peer).mine->dial->socket));
      give_up(at(peer));
      leaving.push_back(v);
      TUTTI_FAULT_POINT("tcp.door.confirm");
      // If it cannot be written that rank has gone, which whoever uses the connection will see.
      write(v, [self = this->shared_from_this(), v, peer](const asio::error_code&) {
        self->leaving.remove(v);
        self->establish(peer, std::move(v->line));
      });
    }
    void fail(int peer, const std::string& why) {
      at(peer).wanted = false;
      give_up(at(peer));
      owner.cannot_connect(peer, tcp_text(options) << "no connection to rank " << peer << " at "
                                                   << endpoint_text(member(peer).endpoint) << why);
    }
    void establish(int peer, socket&& line) {
      TUTTI_FAULT_POINT("tcp.door.establish");
      asio::error_code ignored;
      line.non_blocking(true, ignored);
      owner.established(peer, std::move(line));
    }
    void give_up(neighbour& n) noexcept {
      if (n.mine) {
        if (n.mine->dial) n.mine->dial->give_up();
        cancel(n.mine->pause);
        cancel(n.mine->limit);
        n.mine.reset();
      }
      if (n.theirs) close(*n.theirs);
      n.theirs.reset();
    }

    // ---- Others connect

    /// Called by the gate.
    void arrived(const tcp_hello& hello, socket&& line) {
      if (closed) return;
      asio::error_code ignored;
      const asio::ip::tcp::endpoint from = line.remote_endpoint(ignored);
      if (hello.kind == tcp_hello::kinds::join) {
        gate.count_stranger(from, "came to join when all ranks had come");
        return dismiss(refusal(hello, from), std::move(line));
      }
      const bool ours = hello.kind == tcp_hello::kinds::data && hello.version == settings.version &&
                        equal_in_constant_time(hello.session.data(), membership.session.data(), hello.session.size()) &&
                        is_peer(hello.rank) && hello.to == options.rank;
      if (!ours) return gate.count_stranger(from, "is of another start of this job");
      neighbour& n = at(hello.rank);
      const bool own_on_the_way = n.mine && n.mine->dial && n.mine->dial->greeted() && options.rank < hello.rank;
      if (n.connected || own_on_the_way)
        return dismiss({tcp_answer(tcp_answer::kinds::yield, who), {}}, std::move(line));
      accept(hello.rank, std::move(line));
    }
    void accept(int peer, socket&& line) {
      give_up(at(peer));  // this rank's own attempt, or an earlier one of that rank
      const visit_pointer v = keep({tcp_answer(tcp_answer::kinds::accepted, who), {}}, std::move(line));
      at(peer).theirs = v;
      TUTTI_FAULT_POINT("tcp.door.accept");
      v->limit.expires_at(time_in(options.start_timeout));
      v->limit.async_wait([self = this->shared_from_this(), v, peer](const asio::error_code& cancelled) {
        if (!cancelled && self->at(peer).theirs == v) self->lose(peer);
      });
      write(v, [self = this->shared_from_this(), v, peer](const asio::error_code& wrong) {
        if (self->at(peer).theirs != v) return;
        if (wrong) return self->lose(peer);
        self->await_confirmation(v, peer);
      });
    }
    void await_confirmation(const visit_pointer& v, int peer) {
      asio::async_read(v->line, asio::buffer(v->frame),
                       [self = this->shared_from_this(), v, peer](const asio::error_code& wrong, std::size_t) {
                         if (self->closed || self->at(peer).theirs != v) return;
                         const tcp_answer said = tcp_answer::decode(v->frame.data());
                         if (wrong || !said.fits(self->who) || said.kind != tcp_answer::kinds::accepted)
                           return self->lose(peer);
                         v->limit.cancel();
                         self->at(peer).theirs.reset();
                         self->at(peer).connected = true;
                         self->establish(peer, std::move(v->line));
                       });
    }
    /// That rank has given up the attempt: it comes again, or this rank does.
    void lose(int peer) {
      give_up(at(peer));
      if (at(peer).wanted) want(peer);
    }
    std::pair<tcp_answer, std::string> refusal(const tcp_hello& hello, const asio::ip::tcp::endpoint& from) const {
      const failure reason{errc::mismatch, hello.rank,
                           message() << "tcp start: rank " << hello.rank << " (" << endpoint_text(unmapped(from))
                                     << ") comes when all " << options.size << " ranks have come"};
      return {tcp_answer::refusal(reason, who), reason.text};
    }
    /// Says that, and closes.
    void dismiss(const std::pair<tcp_answer, std::string>& what, socket&& line) {
      const visit_pointer v = keep(what, std::move(line));
      leaving.push_back(v);
      write(v, [self = this->shared_from_this(), v](const asio::error_code&) {
        close(*v);
        self->leaving.remove(v);
      });
    }
    visit_pointer keep(const std::pair<tcp_answer, std::string>& what, socket&& line) {
      auto v = std::make_shared<visit>(io, std::move(line));
      v->frame = what.first.encode();
      v->text = what.second;
      return v;
    }
    template <class Then>
    void write(const visit_pointer& v, Then then) {
      const std::array<asio::const_buffer, 2> parts{asio::buffer(v->frame), asio::buffer(v->text)};
      asio::async_write(v->line, parts,
                        [self = this->shared_from_this(), v, then = std::move(then)](const asio::error_code& wrong,
                                                                                     std::size_t) mutable {
                          if (!self->closed) then(wrong);
                        });
    }
    static void close(visit& v) noexcept {
      asio::error_code ignored;
      cancel(v.limit);
      v.line.close(ignored);
    }

    asio::io_context& io;
    tcp_options options;
    membership_type& membership;
    Owner& owner;
    tcp_settings settings;
    Security security;
    tcp_credentials who;
    tcp_gate<state, Security> gate;
    std::string shortage;               // of the last attempt
    std::vector<neighbour> neighbours;  // by rank
    std::list<visit_pointer> leaving;   // what is under way to be handed over or closed
    bool closed = false;
  };

  std::shared_ptr<state> state_;
};

}  // namespace tutti::detail
