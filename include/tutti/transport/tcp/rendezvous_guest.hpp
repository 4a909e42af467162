// SPDX-License-Identifier: BSL-1.0
#pragma once

// A rank other than 0 at the meeting of the ranks.

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/await.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/dial.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/listening.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/retry.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Looks for rank 0 until it answers, tells it where this rank listens, and hears from it where all are. One thing
/// after the other; whatever is under way when time is up, or when something is thrown, has ended when a call returns.
template <class Resolver, class Security>
class tcp_rendezvous_guest {
 public:
  using membership_type = basic_tcp_membership<typename Security::socket>;

  tcp_rendezvous_guest(asio::io_context& io, const tcp_options& options, const tcp_settings& settings,
                       const tcp_plan& plan, tcp_listener adopted, Resolver& resolver, const Security& security)
      : io_(io),
        options_(options),
        settings_(settings),
        plan_(plan),
        resolver_(resolver),
        security_(security),
        who_(tcp_credentials::of(options.job, options.token)),
        until_(time_in(options.start_timeout)),
        listener_(std::move(adopted)),
        host_(io) {}

  membership_type join() {
    find_host();
    TUTTI_FAULT_POINT("tcp.guest.heard");
    tell_where();
    TUTTI_FAULT_POINT("tcp.guest.told");
    return be_welcomed();
  }
  /// Tells rank 0 why this rank cannot come, as far as that is there.
  void decline(const failure& reason) {
    find_host();
    TUTTI_FAULT_POINT("tcp.guest.decline");
    refuse(reason);
  }

 private:
  std::string rank_0() const { return message() << "rank 0 at " << options_.master; }

  /// Tries every address again and again until rank 0 has answered.
  void find_host() {
    retry_times times(settings_.patience);
    for (;;) {
      std::vector<asio::ip::address> addresses;
      const asio::error_code wrong = resolve_host(io_, plan_.master.host, until_, resolver_, addresses);
      remember(std::exchange(trouble_, {}));
      if (wrong) trouble_ = message() << "the name " << plan_.master.host << " cannot be resolved: " << wrong.message();
      const std::chrono::nanoseconds patience = times.attempt();
      for (const asio::ip::address& address : addresses) {
        if (try_host({address, static_cast<asio::ip::port_type>(plan_.master.port)}, patience)) return;
        if (std::chrono::steady_clock::now() < until_) continue;
        if (!earlier_.empty()) trouble_ = earlier_.front();  // there was no time for this attempt
        break;
      }
      if (std::chrono::steady_clock::now() >= until_) in_vain();
      const auto left = until_ - std::chrono::steady_clock::now();
      const auto pause = times.pause();
      pause_for(io_, pause < left ? pause : left);
    }
  }
  /// The last round may say little, as where rank 0 has just given up too.
  void remember(std::string trouble) {
    constexpr std::size_t most = 4;
    if (trouble.empty()) return;
    std::erase(earlier_, trouble);
    earlier_.push_front(std::move(trouble));
    if (earlier_.size() > most) earlier_.pop_back();
  }
  bool try_host(const asio::ip::tcp::endpoint& endpoint, std::chrono::nanoseconds patience) {
    tcp_hello hello;
    hello.byte_order = settings_.byte_order;
    hello.version = settings_.version;
    hello.who = who_;
    hello.rank = options_.rank;
    hello.size = options_.size;
    hello.layout = settings_.layout;
    TUTTI_FAULT_POINT("tcp.guest.connect");
    const auto dial = std::make_shared<tcp_dial<Security>>(io_, endpoint, hello, security_);
    const asio::error_code wrong = await(
        io_, until_, [&](auto handler) { dial->start(patience, std::move(handler)); }, [&] { dial->interrupt(); });
    if (wrong) return fail_at(endpoint, *dial, wrong);
    const tcp_answer answer = dial->answer();
    if (!answer.fits(who_)) return fail_at(endpoint, "whoever listens there does not answer as rank 0 of this job");
    host_ = std::move(dial->socket);
    found_at_ = endpoint;
    if (answer.kind == tcp_answer::kinds::refused) be_refused(answer);
    if (answer.kind != tcp_answer::kinds::heard) return fail_at(endpoint, "rank 0 said what it may not say now");
    follow_clock(answer);
    return true;
  }
  bool fail_at(const asio::ip::tcp::endpoint& endpoint, const tcp_dial<Security>& dial, const asio::error_code& wrong) {
    if (is_shortage(wrong)) short_ = wrong;
    if (const std::string why = security_.objection(dial.socket); !why.empty()) return fail_at(endpoint, why);
    if (!dial.greeted()) return fail_at(endpoint, is_shortage(wrong) ? shortage_text(wrong) : wrong.message());
    if (wrong == asio::error::timed_out) return fail_at(endpoint, "whoever listens there does not answer");
    return fail_at(endpoint,
                   "the connection was closed without an answer, as it is if job (TUTTI_JOB) or token (TUTTI_TOKEN) "
                   "are not those of rank 0, or only one of both uses TLS");
  }
  bool fail_at(const asio::ip::tcp::endpoint& endpoint, const std::string& why) {
    trouble_ += message() << (trouble_.empty() ? "" : "; ") << endpoint_text(endpoint) << ": " << why;
    if (endpoint.address().is_loopback() && plan_.master.host != endpoint.address().to_string() &&
        plan_.master.host != "localhost")
      trouble_ += " (the name means this host itself here)";
    return false;
  }
  /// Rank 0 tells when its time is up; a little longer is for one that cannot.
  void follow_clock(const tcp_answer& answer) {
    constexpr auto most = std::chrono::milliseconds(std::chrono::hours(24 * 365));
    const auto limit = static_cast<std::uint64_t>(most.count());
    const auto left = std::chrono::milliseconds(answer.remaining < limit ? answer.remaining : limit);
    until_ = std::chrono::steady_clock::now() + left + settings_.handshake_limit;
  }

  /// Opens the listener, and tells rank 0 where it is, or why there is none.
  void tell_where() {
    tcp_member member;
    try {
      asio::error_code ignored;
      const asio::ip::address here = unmapped(host_.local_endpoint(ignored)).address();
      listen_as_guest(listener_, options_, plan_, settings_, here, member.endpoint);
      TUTTI_FAULT_POINT("tcp.guest.listening");
    } catch (const error& e) {
      const failure reason = failure_of(e, options_.rank);
      refuse(reason);
      reason.raise();
    }
    member.host = host_identity();
    member.network = network_identity(member.host);
    member.memory = memory_identity(member.network, options_.host);
    const auto frame = tcp_answer(tcp_answer::kinds::here, who_).encode();
    std::array<std::byte, tcp_member_frame::bytes> where{};
    tcp_member_frame::encode(member, where.data());
    say(std::array<asio::const_buffer, 2>{asio::buffer(frame), asio::buffer(where)});
  }
  void refuse(const failure& reason) {
    const tcp_answer refusal = tcp_answer::refusal(reason, who_);
    const auto frame = refusal.encode();
    say(std::array<asio::const_buffer, 2>{asio::buffer(frame), asio::buffer(reason.text.data(), refusal.text_bytes())});
  }

  membership_type be_welcomed() {
    std::array<std::byte, tcp_answer::bytes> frame{};
    const asio::error_code wrong = try_to_hear(asio::buffer(frame));
    if (wrong) {
      // Rank 0 may be there all the same: it takes this rank in if it has not come, or knows why all is over.
      if (std::exchange(came_again_, true) || !try_host(found_at_, settings_.patience)) host_left(wrong);
      TUTTI_FAULT_POINT("tcp.guest.again");
      tell_where();
      return be_welcomed();
    }
    const tcp_answer answer = tcp_answer::decode(frame.data());
    if (answer.fits(who_) && answer.kind == tcp_answer::kinds::refused) be_refused(answer);
    if (!answer.fits(who_) || answer.kind != tcp_answer::kinds::welcome ||
        answer.count != static_cast<std::uint32_t>(options_.size))
      out_of_turn();
    std::vector<std::byte> frames(static_cast<std::size_t>(options_.size) * tcp_member_frame::bytes);
    hear(asio::buffer(frames));
    membership_type made{
        answer.session, std::vector<tcp_member>(static_cast<std::size_t>(options_.size)), {}, std::move(listener_)};
    asio::error_code ignored;
    const asio::ip::address seen_from = host_.local_endpoint(ignored).address();
    for (std::size_t rank = 0; rank < made.members.size(); ++rank) {
      tcp_member& m = made.members[rank];
      const bool good = tcp_member_frame::decode(frames.data() + rank * tcp_member_frame::bytes, m);
      if (rank == 0)
        m.endpoint = unmapped(host_.remote_endpoint(ignored));  // rank 0 is where it was found
      else if (good)
        m.endpoint.address(with_scope(m.endpoint.address(), seen_from));
      else
        out_of_turn();
    }
    made.control.push_back(std::move(host_));
    return made;
  }
  [[noreturn]] void be_refused(const tcp_answer& answer) {
    std::string text(answer.text_bytes(), '\0');
    hear(asio::buffer(text.data(), text.size()));
    answer.reason(text).raise();
  }
  [[noreturn]] void out_of_turn() { throw mismatch(tcp_text(options_) << rank_0() << " said what it may not say now"); }

  template <class Buffers>
  void say(const Buffers& buffers) {
    const asio::error_code wrong = await(
        io_, until_, [&](auto handler) { asio::async_write(host_, buffers, std::move(handler)); },
        [&] { close_host(); });
    if (wrong == asio::error::timed_out) silent();
    // If rank 0 has gone, what it said before is still there to be read.
  }
  asio::error_code try_to_hear(const asio::mutable_buffer& buffer) {
    const asio::error_code wrong = await(
        io_, until_, [&](auto handler) { asio::async_read(host_, buffer, std::move(handler)); }, [&] { close_host(); });
    if (wrong == asio::error::timed_out) silent();
    return wrong;
  }
  void hear(const asio::mutable_buffer& buffer) {
    if (const asio::error_code wrong = try_to_hear(buffer)) host_left(wrong);
  }
  [[noreturn]] void host_left(const asio::error_code& wrong) {
    throw peer_failed(0, tcp_text(options_) << rank_0() << " left before all had come (" << wrong.message() << ")");
  }
  void close_host() noexcept {
    asio::error_code ignored;
    host_.close(ignored);
  }
  [[noreturn]] void silent() { throw timed_out(0, tcp_text(options_) << rank_0() << " answered, but is silent since"); }
  [[noreturn]] void in_vain() {
    message text = tcp_text(options_);
    text << "no answer of " << rank_0() << " for " << static_cast<long long>(options_.start_timeout.count())
         << " ms: " << (trouble_.empty() ? std::string("it has no address") : trouble_);
    for (const std::string& before : earlier_)
      if (before != trouble_) text << "; before that: " << before;
    text << "; has rank 0 started, and is master (MASTER_ADDR, MASTER_PORT) its address?";
    if (short_) throw resource_error(text << "; meanwhile " << shortage_text(short_));
    throw timed_out(0, text);
  }

  asio::io_context& io_;
  const tcp_options& options_;
  const tcp_settings& settings_;
  const tcp_plan& plan_;
  Resolver& resolver_;
  const Security& security_;
  tcp_credentials who_;
  std::chrono::steady_clock::time_point until_;
  tcp_listener listener_;
  typename Security::socket host_;
  asio::ip::tcp::endpoint found_at_;
  bool came_again_ = false;
  std::string trouble_;              // what went wrong at each address in the last round
  std::deque<std::string> earlier_;  // the same of rounds before, each once, the latest first
  asio::error_code short_;           // what the system was short of
};

}  // namespace tutti::detail
