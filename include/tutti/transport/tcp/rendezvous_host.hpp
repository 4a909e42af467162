// SPDX-License-Identifier: BSL-1.0
#pragma once

// Rank 0 at the meeting of the ranks.

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/tcp/cancel.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/gate.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/objection.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/reachable.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Waits for the other ranks, and tells each where all are. Nobody who is silent, slow or dead holds up the others; the
/// clock of rank 0 decides for all. Handlers share it.
template <class Security>
class tcp_rendezvous_host : public std::enable_shared_from_this<tcp_rendezvous_host<Security>> {
 public:
  using socket_type = typename Security::socket;

  tcp_rendezvous_host(asio::io_context& io, const tcp_options& options, const tcp_settings& settings,
                      tcp_listener listener, std::chrono::steady_clock::time_point until, const Security& security)
      : io_(io),
        options_(options),
        settings_(settings),
        security_(security),
        who_(tcp_credentials::of(options.job, options.token)),
        until_(until),
        listener_(std::move(listener)),
        clock_(io),
        guests_(static_cast<std::size_t>(options.size)) {}

  void start() {
    gate_.emplace(io_, listener_, who_, settings_, *this, security_);
    gate_->start();
    clock_.expires_at(until_);
    clock_.async_wait([self = this->shared_from_this()](const asio::error_code& cancelled) {
      if (!cancelled && !self->over_) self->time_is_up();
    });
  }
  /// Whoever comes is told that the start has failed, for a while.
  void refuse_all(const failure& reason) { give_up(reason); }
  /// Whether all have been told: that all have come, or why the start failed.
  bool over() const { return over_; }
  /// Ends everything at once; what came in is closed.
  void close() noexcept {
    over_ = true;
    gate_.reset();
    cancel(clock_);
    for (guest& g : guests_)
      if (g.again) cancel(*g.again);
    for (const line_pointer& l : lines_) close(*l);
    lines_.clear();
  }
  /// Once it is over: throws why the start failed, if it did.
  basic_tcp_membership<socket_type> take() {
    if (failed_) reason_.raise();
    basic_tcp_membership<socket_type> made{session_, {}, {}, std::move(listener_)};
    for (int rank = 0; rank < options_.size; ++rank) {
      guest& g = guests_[static_cast<std::size_t>(rank)];
      made.members.push_back(g.member);
      if (g.line)
        made.control.push_back(std::move(g.line->socket));
      else
        made.control.emplace_back(io_);
    }
    return made;
  }
  std::uint64_t strangers() const { return strangers_ + (gate_ ? gate_->strangers() : 0); }

  /// Called by the gate.
  void arrived(const tcp_hello& hello, socket_type&& socket) {
    asio::error_code ignored;
    const asio::ip::tcp::endpoint from = unmapped(socket.remote_endpoint(ignored));
    if (hello.kind != tcp_hello::kinds::join && hello.version == settings_.version)
      return gate_->count_stranger(from, "did not come to join");
    const line_pointer l = std::make_shared<line>(std::move(socket), hello, from);
    lines_.push_back(l);
    if (const std::string wrong = objection(hello, settings_, options_.size); !wrong.empty())
      give_up({errc::mismatch, hello.rank, about(*l) << wrong});
    if (failed_) return refuse(l);
    tcp_answer heard(tcp_answer::kinds::heard, who_);
    heard.remaining = remaining();
    l->frame = heard.encode();
    write(l, [self = this->shared_from_this(), l] {
      l->heard = true;
      self->listen_to(l);
    });
  }

 private:
  struct line {
    line(socket_type&& connected, const tcp_hello& hello, const asio::ip::tcp::endpoint& where)
        : socket(std::move(connected)), rank(hello.rank), from(where) {}
    socket_type socket;
    int rank;
    asio::ip::tcp::endpoint from;
    std::array<std::byte, tcp_answer::bytes> frame{};     // what is said
    std::array<std::byte, tcp_answer::most_text> text{};  // what is heard
    bool writing = false;
    bool heard = false;  // it has been told that it belongs here
    bool refused = false;
    bool gone = false;
  };
  using line_pointer = std::shared_ptr<line>;
  struct guest {
    line_pointer line;
    tcp_member member;
    std::optional<asio::steady_timer> again;  // until it must have come again
    bool told = false;
  };

  guest& guest_of(int rank) { return guests_[static_cast<std::size_t>(rank)]; }
  std::uint64_t remaining() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? static_cast<std::uint64_t>(left.count()) : 0;
  }

  /// How a text begins that is about that rank.
  static message about(const line& l) {
    message text;
    text << "tcp start: rank " << l.rank << " (" << endpoint_text(l.from) << ") ";
    return text;
  }

  /// Writes the frame, then calls `then()`; in case of an error, the line is closed.
  template <class Then>
  void write(const line_pointer& l, Then then) {
    l->writing = true;
    asio::async_write(l->socket, asio::buffer(l->frame),
                      [self = this->shared_from_this(), l, then = std::move(then)](const asio::error_code& wrong,
                                                                                   std::size_t) mutable {
                        l->writing = false;
                        if (l->gone || self->over_) return;
                        if (l->refused) return self->say_refusal(l);
                        if (wrong) return self->leave(l);
                        then();
                      });
  }
  /// Reads so many bytes into `text`, then calls `then()`.
  template <class Then>
  void read(const line_pointer& l, std::size_t size, Then then) {
    asio::async_read(l->socket, asio::buffer(l->text.data(), size),
                     [self = this->shared_from_this(), l, then = std::move(then)](const asio::error_code& wrong,
                                                                                  std::size_t) mutable {
                       if (l->gone || l->refused || self->over_) return;
                       if (wrong) return self->leave(l);
                       then();
                     });
  }

  void listen_to(const line_pointer& l) {
    read(l, tcp_answer::bytes, [this, l] {
      TUTTI_FAULT_POINT("tcp.host.answered");
      const tcp_answer answer = tcp_answer::decode(l->text.data());
      if (answer.fits(who_) && answer.kind == tcp_answer::kinds::here) {
        read(l, tcp_member_frame::bytes, [this, l] { come(l); });
      } else if (answer.fits(who_) && answer.kind == tcp_answer::kinds::refused) {
        read(l, answer.text_bytes(), [this, l, answer] {
          const std::string_view text(reinterpret_cast<const char*>(l->text.data()), answer.text_bytes());
          give_up(answer.reason(text));
        });
      } else {
        out_of_turn(l);
      }
    });
  }
  void out_of_turn(const line_pointer& l) {
    give_up({errc::mismatch, l->rank, about(*l) << "said what it may not say now"});
  }

  void come(const line_pointer& l) {
    TUTTI_FAULT_POINT("tcp.host.come");
    guest& g = guest_of(l->rank);
    if (g.line)
      return give_up({errc::mismatch, l->rank,
                      message() << "tcp start: two processes, connected from " << endpoint_text(g.line->from) << " and "
                                << endpoint_text(l->from) << ", both say that they are rank " << l->rank << " of "
                                << options_.size});
    if (!tcp_member_frame::decode(l->text.data(), g.member)) return out_of_turn(l);
    g.line = l;
    asio::error_code ignored;
    g.member.endpoint.address(with_scope(g.member.endpoint.address(), l->socket.local_endpoint(ignored).address()));
    if (++come_ == options_.size - 1) return complete();
    watch(l);
  }
  /// One that has come says nothing until all have: what can be read is its end.
  void watch(const line_pointer& l) {
    l->socket.async_wait(asio::ip::tcp::socket::wait_read,
                         [self = this->shared_from_this(), l](const asio::error_code&) {
                           if (l->gone || l->refused || self->over_ || self->completing_) return;
                           const socket_result got = Security::peek(l->socket);
                           if (got.bytes != 0) return self->out_of_turn(l);
                           if (!got.ended && got.error == 0) return self->watch(l);
                           self->give_up({errc::peer_failed, l->rank, about(*l) << "left before all had come"});
                         });
  }

  void complete() {
    TUTTI_FAULT_POINT("tcp.host.complete");
    const std::uint64_t host = host_identity();
    const std::uint64_t network = network_identity(host);
    guests_[0].member = {listener_.local_endpoint(), host, network, memory_identity(network, options_.host)};
    const auto member_of = [this](int rank) -> const tcp_member& { return guest_of(rank).member; };
    if (std::string wrong = unreachable(options_.size, member_of); !wrong.empty())
      return give_up({errc::usage, 0, std::move(wrong)});
    completing_ = true;
    forget_gate();
    fill_with_random_bits(session_.data(), session_.size());
    tcp_answer welcome(tcp_answer::kinds::welcome, who_);
    welcome.count = static_cast<std::uint32_t>(options_.size);
    welcome.session = session_;
    const auto frame = std::make_shared<std::vector<std::byte>>(
        tcp_answer::bytes + static_cast<std::size_t>(options_.size) * tcp_member_frame::bytes);
    std::memcpy(frame->data(), welcome.encode().data(), tcp_answer::bytes);
    for (std::size_t rank = 0; rank < guests_.size(); ++rank)
      tcp_member_frame::encode(guests_[rank].member,
                               frame->data() + tcp_answer::bytes + rank * tcp_member_frame::bytes);
    for (auto i = lines_.begin(); i != lines_.end();) {
      const line_pointer l = *i++;
      if (guest_of(l->rank).line != l) leave(l);  // an attempt that was given up
    }
    unwelcomed_ = options_.size - 1;
    for (const line_pointer& l : lines_) {
      TUTTI_FAULT_POINT("tcp.host.welcome");
      asio::error_code ignored;
      l->socket.cancel(ignored);
      // Who dies from here on is a rank that died in the group.
      asio::async_write(l->socket, asio::buffer(*frame),
                        [self = this->shared_from_this(), l, frame](const asio::error_code&, std::size_t) {
                          if (!self->over_ && --self->unwelcomed_ == 0) self->end();
                        });
    }
  }
  void time_is_up() {
    if (failed_) return end();
    if (completing_) return end();  // whoever has not taken its welcome has failed in the group
    message text;
    text << "tcp start: ";
    int first = 0;
    list_ranks(text, options_.size, [&](int rank) {
      const bool missing = rank != 0 && !guest_of(rank).line;
      if (missing && first == 0) first = rank;
      return missing;
    });
    text << " of " << options_.size << " had not come to rank 0 at " << endpoint_text(listener_.local_endpoint())
         << " after " << static_cast<long long>(options_.start_timeout.count()) << " ms";
    if (strangers() > 0) text << "; " << strangers() << " connections were not of this job";
    if (!gate_->last_stranger().empty()) text << ", one of them: " << gate_->last_stranger();
    if (gate_->shortage())
      return give_up({errc::resource, 0, text << "; rank 0 can take no more: " << shortage_text(gate_->shortage())});
    give_up({errc::timed_out, first, text});
  }

  /// The start has failed: the first reason counts. Those that come later are told too, for a while.
  void give_up(const failure& reason) {
    if (failed_) return;
    failed_ = true;
    reason_ = reason;
    const std::vector<line_pointer> present(lines_.begin(), lines_.end());
    clock_.expires_after(settings_.farewell);
    clock_.async_wait([self = this->shared_from_this()](const asio::error_code& cancelled) {
      if (!cancelled && !self->over_) self->end();
    });
    for (const line_pointer& l : present) refuse(l);
    look_whether_all_told();
  }
  void refuse(const line_pointer& l) {
    if (l->refused || l->gone) return;
    l->refused = true;
    asio::error_code ignored;
    l->socket.cancel(ignored);
    if (!l->writing) say_refusal(l);
  }
  void say_refusal(const line_pointer& l) {
    const tcp_answer refusal = tcp_answer::refusal(reason_, who_);
    l->frame = refusal.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(l->frame),
                                                  asio::buffer(reason_.text.data(), refusal.text_bytes())};
    asio::async_write(l->socket, parts,
                      [self = this->shared_from_this(), l](const asio::error_code& wrong, std::size_t) {
                        if (l->gone || self->over_) return;
                        if (wrong) return self->leave(l);
                        asio::error_code ignored;
                        l->socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                        self->drain(l);
                      });
  }
  /// The other end closes when it has read the refusal. Closing before would take it away, if something is unread here.
  void drain(const line_pointer& l) {
    l->socket.async_read_some(asio::buffer(l->text),
                              [self = this->shared_from_this(), l](const asio::error_code& wrong, std::size_t) {
                                if (l->gone || self->over_) return;
                                wrong ? self->leave(l) : self->drain(l);
                              });
  }

  void close(line& l) noexcept {
    l.gone = true;
    asio::error_code ignored;
    l.socket.close(ignored);
  }
  void leave(const line_pointer& l) {
    if (l->gone) return;
    const int rank = l->rank;
    close(*l);
    lines_.remove(l);
    if (!failed_ && !completing_ && l->heard) expect_again(l);
    if (!failed_) return;
    if (rank >= 1 && rank < options_.size) guest_of(rank).told = true;
    look_whether_all_told();
  }
  /// Who has been answered and goes before it has come may have given up that attempt, and be at the next one.
  void expect_again(const line_pointer& gone) {
    guest& g = guest_of(gone->rank);
    if (g.line) return;
    g.again.emplace(io_, settings_.again);
    g.again->async_wait([self = this->shared_from_this(), gone](const asio::error_code& cancelled) {
      if (cancelled || self->over_ || self->failed_ || self->completing_) return;
      for (const line_pointer& l : self->lines_)
        if (l->rank == gone->rank) return;
      self->give_up({errc::peer_failed, gone->rank,
                     about(*gone) << "left when rank 0 had answered it, and did not come again for "
                                  << static_cast<long long>(self->settings_.again.count()) << " ms"});
    });
  }
  /// When the time is up, those that are still to come have waited long enough.
  void look_whether_all_told() {
    int told = 0;
    for (const guest& g : guests_) told += g.told ? 1 : 0;
    const bool all = told == options_.size - 1 || reason_.kind == errc::timed_out;
    if (failed_ && !over_ && all && lines_.empty()) end();
  }
  void forget_gate() {
    strangers_ += gate_->strangers();
    gate_->stop();
  }
  void end() {
    over_ = true;
    clock_.cancel();
    for (guest& g : guests_)
      if (g.again) g.again->cancel();
    gate_->stop();
    if (!failed_) return;
    for (const line_pointer& l : lines_) close(*l);
    lines_.clear();
  }

  asio::io_context& io_;
  tcp_options options_;
  tcp_settings settings_;
  Security security_;
  tcp_credentials who_;
  std::chrono::steady_clock::time_point until_;
  tcp_listener listener_;
  asio::steady_timer clock_;
  std::optional<tcp_gate<tcp_rendezvous_host, Security>> gate_;
  std::list<line_pointer> lines_;  // all that belong to the job and are open
  std::vector<guest> guests_;      // by rank
  std::array<std::byte, 16> session_{};
  std::uint64_t strangers_ = 0;
  int come_ = 0;
  int unwelcomed_ = 0;
  bool completing_ = false;
  bool failed_ = false;
  bool over_ = false;
  failure reason_;
};

}  // namespace tutti::detail
