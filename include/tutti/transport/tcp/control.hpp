// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/tcp/arbiter.hpp>
#include <tutti/transport/tcp/control_link.hpp>
#include <tutti/transport/tcp/control_message.hpp>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tutti::detail {

/// The control plane of one rank, on its service thread: a star, in whose middle rank 0 is the arbiter of all. Each
/// connection carries a sign of life every quarter of the heartbeat, both ways. If rank 0 ends or is silent for too
/// long, every rank finds that out for itself. `Owner` is told, on that thread:
///
/// - `decided(failure)`: the group has failed, of that; once; `decided(part, members, failure)`: that communicator has,
///   whose members have that hash;
/// - `left(rank, last, fingerprint)`: that rank has left, and what it called last; `left(part, rank, last, given)`: it
///   has left that communicator, when it had written so many bytes for this one;
/// - `parted()`: all ranks have left, and have called the same; once, and not if the group has failed;
/// - `settled()`: after `settle()`: nothing is left to be written, or waited for;
/// - `calls()`, `messages()`: the logs of this rank; `part(number)`: the state of that communicator, or null if this
///   rank has not been in it lately; `is_to_come(number)`: it may be in it one day; `is_to_come(number, parent)`: the
///   same of one that is made of that one;
/// - `trouble()`: why it can make no more connections, empty if it can;
/// - `written(rank)`: how many bytes this rank has written for that one, on their data connection; `given(rank)`: the
///   same, as they are before they are encrypted;
/// - `claimed(rank, bytes)`: that rank has written so many for this one, which waits for some of them.
template <class Owner, class Socket = asio::ip::tcp::socket>
class tcp_control {
  using clock = std::chrono::steady_clock;
  using link = tcp_control_link<tcp_control, Socket>;
  friend link;
  friend tcp_arbiter<tcp_control>;

 public:
  /// `sockets`: on rank 0 those to each rank, by rank, its own closed; else one, to rank 0.
  tcp_control(asio::io_context& io, int rank, int size, std::chrono::milliseconds heartbeat,
              std::vector<Socket> sockets, Owner& owner)
      : io_(&io), owner_(&owner), rank_(rank), size_(size), heartbeat_(heartbeat), beat_(io), watch_timer_(io) {
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (!sockets[i].is_open()) continue;
      links_.push_back(std::make_unique<link>(std::move(sockets[i]), rank == 0 ? static_cast<int>(i) : 0, *this));
    }
    if (rank == 0) {
      arbiter_.emplace(size, *this);
      link_of_.resize(static_cast<std::size_t>(size));
      for (const auto& l : links_) link_of_[static_cast<std::size_t>(l->rank())] = l.get();
    }
  }
  tcp_control(const tcp_control&) = delete;
  tcp_control& operator=(const tcp_control&) = delete;

  void start() {
    for (const auto& l : links_) l->start();
    last_beat_ = clock::now();
    beat();
  }

  /// Tells the arbiter.
  void report(control_message m) {
    if (concluded_) return;
    if (m.kind == control_kind::goodbye) said_goodbye_ = true;
    if (arbiter_) {
      asio::post(*io_, [this, m = std::move(m)]() mutable { arbiter_->receive(0, m); });
    } else {
      links_.front()->send(m);
    }
  }
  /// The arbiter has not decided in time, or cannot: this is what this rank fails of.
  void conclude(const failure& f) {
    if (std::exchange(concluded_, true)) return;
    rest();
    owner_->decided(f);
  }
  bool concluded() const { return concluded_; }
  /// Calls `f(rank, descriptor)` for each of the connections, which stay open until `close()`.
  template <class F>
  void for_each_connection(F&& f) {
    for (const auto& l : links_) f(l->rank(), l->descriptor());
  }

  /// Tells the owner once everything is written that was sent, and, on rank 0, read by the others. Only after a
  /// verdict or the farewell; without them the connections are as good as closed.
  void settle() {
    settling_ = true;
    rest();
    rested();
  }
  void close() noexcept {
    for (const auto& l : links_) l->close();
  }

 private:
  struct watch {
    int asker;
    std::uint32_t group;
    std::uint64_t number;
    std::uint64_t fingerprint;
    std::uint32_t parent;
  };
  struct missing {
    int asker;
    std::uint64_t received;
  };
  // A rank may wait for this one in so many communicators that this one is not in yet.
  static constexpr std::size_t most_ahead = 256;
  static constexpr std::chrono::milliseconds first_look{5};
  static constexpr std::chrono::milliseconds rarest_look{500};

  // ---- What the links tell

  bool heard(int from, control_message& m) {
    TUTTI_FAULT_POINT("tcp.control.heard");
    if (m.kind == control_kind::ping) return true;
    return arbiter_ ? arbiter_->receive(from, m) : take(m);
  }
  void lost(int rank, bool nonsense) {
    TUTTI_FAULT_POINT("tcp.control.lost");
    gone(rank, nonsense ? spoke_nonsense(rank) : ended_early(rank));
  }
  void rested() {
    if (!settling_ || settled_) return;
    const bool over = std::all_of(links_.begin(), links_.end(),
                                  [this](const auto& l) { return l->shut_down() && (l->ended() || !arbiter_); });
    if (!over) return;
    settled_ = true;
    owner_->settled();
  }

  // ---- What the arbiter does, on rank 0

  void tell(int rank, const control_message& m) {
    TUTTI_FAULT_POINT("tcp.control.tell");
    if (rank == 0) {
      asio::post(*io_, [this, m] { take(m); });
    } else if (link* const l = link_of_[static_cast<std::size_t>(rank)]) {
      l->send(m);
    }
  }
  void expire(std::uint64_t ticket, int milliseconds) {
    const auto timer = std::make_shared<asio::steady_timer>(*io_, std::chrono::milliseconds(milliseconds));
    timer->async_wait([this, timer, ticket](const asio::error_code& wrong) {
      if (!wrong) arbiter_->expired(ticket);
    });
  }

  // ---- What the arbiter tells this rank

  bool take(const control_message& m) {
    switch (m.kind) {
      case control_kind::asks:
        answer(m);
        return true;
      case control_kind::watches:
        if (!is_rank(m.peer)) return false;
        watch_call({m.peer, m.group, m.number, m.fingerprint, static_cast<std::uint32_t>(m.ticket)});
        return true;
      case control_kind::missed:
        if (!is_rank(m.peer)) return false;
        std::erase_if(missing_, [&](const missing& other) { return other.asker == m.peer; });
        missing_.push_back({m.peer, m.number});
        tell_missing();
        return true;
      case control_kind::written:
        if (!is_rank(m.peer)) return false;
        owner_->claimed(m.peer, m.number);
        return true;
      case control_kind::has_left:
        if (!is_rank(m.peer)) return false;
        if (m.group != 0)
          owner_->left(m.group, m.peer, m.number, m.ticket);
        else
          owner_->left(m.peer, m.number, m.fingerprint);
        return true;
      case control_kind::verdict:
        if (m.group != 0)
          owner_->decided(m.group, m.fingerprint, m.reason());
        else
          conclude(m.reason());
        return true;
      case control_kind::farewell:
        if (!said_goodbye_) return false;
        if (!std::exchange(concluded_, true)) {
          rest();
          owner_->parted();
        }
        return true;
      default:
        return false;
    }
  }
  bool is_rank(int rank) const { return rank >= 0 && rank < size_; }
  void answer(const control_message& question) {
    control_message m;
    m.kind = control_kind::answers;
    m.ticket = question.ticket;
    m.text = owner_->trouble();
    const bool to_come = question.group != 0 && owner_->is_to_come(question.group);  // asked first, as below
    auto part = question.group == 0 ? nullptr : owner_->part(question.group);
    const bool another = part != nullptr && part->hash() != question.fingerprint;  // it has missed that one
    if (another) part = nullptr;
    if (question.group == 0 || part != nullptr) {
      const call_log& log = part == nullptr ? owner_->calls() : part->log;
      m.number = log.last();
      if (question.number == control_message::all_calls) m.calls = std::make_shared<recorded_calls>(log);
      if (question.number == control_message::all_messages)
        m.calls = part == nullptr ? std::make_shared<recorded_calls>(owner_->messages(), rank_)
                                  : std::make_shared<recorded_calls>(part->messages, part->rank_of(rank_));
      if (m.calls != nullptr && m.calls->size() == 0) m.calls = nullptr;
    } else if (!to_come && !another) {
      m.number = control_message::unknown_call;  // it made all its calls, long ago
    }
    report(std::move(m));
  }

  /// Somebody waits for this rank in that call: it looks whether it calls the same, as soon as it has come so far.
  void watch_call(const watch& w) {
    std::erase_if(watches_, [&](const watch& other) { return other.asker == w.asker && other.group == w.group; });
    watches_.push_back(w);
    next_look_ = first_look;
    look();
    // In those that this rank is in, it may wait as often as there are any.
    const auto ahead = [&](const watch& other) {
      return other.asker == w.asker && other.group != 0 && owner_->is_to_come(other.group);
    };
    if (std::count_if(watches_.begin(), watches_.end(), ahead) <= static_cast<std::ptrdiff_t>(most_ahead)) return;
    std::erase_if(watches_, ahead);
    report(control_message::of(control_kind::failed, ahead_too_far(w.asker, most_ahead)));
  }
  void look() {
    std::erase_if(watches_, [this](const watch& w) { return looked(w); });
    if (watches_.empty() || concluded_) return;
    watch_timer_.expires_after(next_look_);
    next_look_ = std::min(2 * next_look_, rarest_look);
    watch_timer_.async_wait([this](const asio::error_code& wrong) {
      if (!wrong) look();
    });
  }
  /// Whether this rank has come so far, or never will.
  bool looked(const watch& w) {
    // Asked first: it may come any moment.
    const bool unmade = w.group != 0 && owner_->is_to_come(w.group);
    const bool to_come = unmade && owner_->is_to_come(w.group, w.parent);
    auto part = w.group == 0 ? nullptr : owner_->part(w.group);
    if (part == nullptr && to_come) return false;
    // This rank never comes where it has been in another one of that number, or where the one before has failed.
    const bool another = part != nullptr && part->rank_of(w.asker) < 0;
    if (another) part = nullptr;
    // Before its calls are looked at: then all are there.
    const bool gone = w.group != 0 && (part == nullptr || part->has_left_here());
    control_message m;
    m.peer = w.asker;
    m.group = w.group;
    if (w.group == 0 || part != nullptr) {
      const call_log& log = part == nullptr ? owner_->calls() : part->log;
      if (w.number <= log.last()) {
        const call mine = log.read(w.number);
        if (mine.signature != nullptr && mine.fingerprint() != w.fingerprint) {
          m.kind = control_kind::differs;
          if (part != nullptr) m.members = part->members();
          report(std::move(m));
          return true;
        }
        // It may yet leave a communicator in the middle of that call; the group it cannot.
        if (w.group == 0) return true;
      }
    }
    if (!gone) return false;
    // What it called in one that it left long ago it does not know; but what it sent there is written.
    m.kind = control_kind::is_gone;
    m.number = part != nullptr ? part->log.last() : another || unmade ? 0 : control_message::unknown_call;
    m.ticket = owner_->given(w.asker);
    report(std::move(m));
    return true;
  }

  /// Who waits for bytes that this rank has written is told that they are on their way, as soon as they are.
  void tell_missing() {
    std::erase_if(missing_, [&](const missing& w) {
      control_message m;
      m.kind = control_kind::wrote;
      m.peer = w.asker;
      m.number = owner_->written(w.asker);
      if (m.number <= w.received) return false;
      report(std::move(m));
      return true;
    });
  }

  // ---- Signs of life

  void beat() {
    const auto now = clock::now();
    // Whoever was stopped itself cannot say how long the others have been silent.
    const bool late = now - last_beat_ > heartbeat_ / 4;
    last_beat_ = now;
    for (const auto& l : links_) {
      if (l->ended()) continue;
      if (late) l->excuse();
      if (now - l->spoke() >= heartbeat_ / 4) l->send({});
      if (now - l->heard() < heartbeat_ || l->has_news()) continue;
      TUTTI_FAULT_POINT("tcp.control.silent");
      gone(l->rank(), silent_too_long(l->rank(), heartbeat_.count()));
    }
    if (concluded_) return;
    tell_missing();
    beat_.expires_after(std::max(std::chrono::nanoseconds(heartbeat_) / 16, std::chrono::nanoseconds(1'000'000)));
    beat_.async_wait([this](const asio::error_code& wrong) {
      if (!wrong && !concluded_) beat();
    });
  }
  void gone(int rank, const failure& why) {
    if (concluded_) return;
    if (arbiter_) {
      arbiter_->gone(rank, why);
    } else {
      links_.front()->send(control_message::of(control_kind::failed, why));  // should it wake up again
      conclude(why);
    }
  }

  /// Nothing is to be said any more.
  void rest() {
    beat_.cancel();
    watch_timer_.cancel();
    for (const auto& l : links_) l->finish();
  }

  asio::io_context* io_;
  Owner* owner_;
  int rank_;
  int size_;
  std::chrono::milliseconds heartbeat_;
  std::vector<std::unique_ptr<link>> links_;
  std::vector<link*> link_of_;  // on rank 0
  std::optional<tcp_arbiter<tcp_control>> arbiter_;
  asio::steady_timer beat_;
  clock::time_point last_beat_;
  asio::steady_timer watch_timer_;
  std::vector<watch> watches_;
  std::vector<missing> missing_;
  std::chrono::milliseconds next_look_{first_look};
  bool said_goodbye_ = false;
  bool concluded_ = false;
  bool settling_ = false;
  bool settled_ = false;
};

}  // namespace tutti::detail
