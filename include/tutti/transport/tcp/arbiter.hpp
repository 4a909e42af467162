// SPDX-License-Identifier: BSL-1.0
#pragma once

// Who decides why a group fails, and when it has ended well: one for all, so that all ranks throw the same.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/tcp/control_message.hpp>
#include <tutti/transport/tcp/message_scope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

// These texts do not depend on who finds out, since that may be several.

/// A control connection has ended that should not.
[[gnu::cold]] inline failure ended_early(int rank) {
  return {errc::peer_failed, rank, message() << "rank " << rank << " has ended without a word"};
}
/// What has come is no message.
[[gnu::cold]] inline failure spoke_nonsense(int rank) {
  return {errc::peer_failed, rank, message() << "rank " << rank << " sent what is no message of this protocol"};
}
/// The system refuses the rank what it needs to connect to others.
[[gnu::cold]] inline failure too_short(int rank, const std::string& what) {
  return {errc::resource, rank, message() << "rank " << rank << " can make no more connections: " << what};
}
/// The rank waits for another in more communicators than there can be that the other is not in yet.
[[gnu::cold]] inline failure ahead_too_far(int rank, std::size_t most) {
  return {errc::peer_failed, rank,
          message() << "rank " << rank << " waits for another one in more than " << most
                    << " communicators which that one is not in yet"};
}
/// The rank reports more than it can wait for at once.
[[gnu::cold]] inline failure reports_too_much(int rank, std::size_t most) {
  return {errc::peer_failed, rank,
          message() << "rank " << rank << " has reported more than " << most << " failures that are not decided yet"};
}
/// Nothing has come for longer than the limit.
[[gnu::cold]] inline failure silent_too_long(int rank, long long milliseconds) {
  return {errc::peer_failed, rank,
          message() << "rank " << rank << " has been silent for " << milliseconds
                    << " ms: it is stopped or cannot be reached"};
}

/// The arbiter of a group: it is told what the ranks see, asks them where it must know more, and decides once; what
/// comes first counts. What concerns one communicator only is decided for its ranks: it may be so more than once, but
/// all are told in the same order, and for each of them the first counts. `Out` does what it says, and tells it later
/// of what comes of it, never at once:
///
/// - `tell(rank, message)`: the message is for that rank, rank 0 like any other;
/// - `expire(ticket, milliseconds)`: calls `expired(ticket)` after that time.
///
/// Knows no sockets, so that it can be tested without any. Questions cost the ranks nothing that they would notice.
template <class Out>
class tcp_arbiter {
 public:
  /// How long the ranks have to say what they called last, once one of them was too late for another.
  static constexpr int patience_ms = 200;
  /// With so many communicators of some of the ranks a rank may leave.
  static constexpr int most_kept = 256;
  /// So many reports of a rank may wait for answers of others, and one of each connection that it has lost.
  static constexpr std::size_t most_asked = 256;

  tcp_arbiter(int size, Out& out) : out_(&out), ranks_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  /// A failure has been decided on.
  bool decided() const { return decided_; }
  /// All have left, and it has been told to all.
  bool ended() const { return ended_; }
  bool has_left(int rank) const { return at(rank).left; }

  /// What a rank says. False if that is nothing that a rank may say.
  bool receive(int from, control_message& m) {
    if (!names_communicator(m, from, size())) return false;
    switch (m.kind) {
      case control_kind::ping:
        return true;
      case control_kind::failed:
        return m.peer >= -1 && m.peer < size_of(m, size()) && failed(from, m);
      case control_kind::suspects:
        return is_other(from, m.peer) && suspects(from, m);
      case control_kind::differs:
        return is_other(from, m.peer) && rank_in(m, m.peer) >= 0 &&
               (m.calls == nullptr ? differs(from, m) : misfits(from, m));
      case control_kind::late:
        return is_other(from, m.peer) && rank_in(m, m.peer) >= 0 && m.calls != nullptr && late(from, m);
      case control_kind::looks:
        // Who is waited for compares, once it has come so far.
        return is_other(from, m.peer) && pass_on(control_kind::watches, from, m);
      case control_kind::misses:
        return is_other(from, m.peer) && pass_on(control_kind::missed, from, m);
      case control_kind::wrote:
        return is_other(from, m.peer) && pass_on(control_kind::written, from, m);
      case control_kind::answers:
        answers(from, m);
        return true;
      case control_kind::goodbye:
        goodbye(from, m);
        return true;
      case control_kind::keeps:
        return m.group != 0 && keeps(from, m);
      case control_kind::is_gone:
        return m.group != 0 && is_other(from, m.peer) && is_gone(from, m);
      default:
        return false;
    }
  }

  /// The rank can no longer be heard: why, if it has not left.
  void gone(int rank, const failure& why) {
    at(rank).gone = true;
    if (!at(rank).left) {
      decide(why);
      return;
    }
    // It has left, and answers no more.
    const control_message nothing;
    std::vector<std::uint64_t> asked;
    for (const question& q : questions_) asked.push_back(q.ticket);
    for (const std::uint64_t ticket : asked) answered(rank, ticket, nothing);
  }

  void expired(std::uint64_t ticket) {
    const auto q = find(ticket);
    if (q != questions_.end()) conclude(q);
  }

 private:
  struct rank_state {
    bool left = false;
    bool gone = false;
    int kept = 0;
    std::uint64_t last = 0;  // of the calls of one that has left
    std::uint64_t fingerprint = 0;
  };
  enum class purpose : unsigned char { lost_connection, desertion, disagreement, misfit, lateness, ending };
  struct answer {
    int rank;
    bool here;
    std::uint64_t last;
    std::string trouble;
    std::shared_ptr<const recorded_calls> calls;
  };
  struct question {
    std::uint64_t ticket;
    purpose what;
    int from;             // who made us ask
    control_message why;  // and by what
    std::vector<answer> answers;
  };
  using questions = std::vector<question>;
  struct end_of_part {
    int rank;
    std::uint32_t group;
    std::uint64_t number;
    std::uint64_t fingerprint;
    std::shared_ptr<const std::vector<std::int32_t>> members;
  };

  const rank_state& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  rank_state& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool is_other(int from, int peer) const { return peer >= 0 && peer < size() && peer != from; }

  /// What `about` is about has failed of what this says of its ranks.
  [[gnu::cold]] void decide(const control_message& about, failure f) {
    if (about.group != 0) f.text += of_members(*about.members);
    tell_verdict(about, f);
  }
  [[gnu::cold]] void tell_verdict(const control_message& about, const failure& f) {
    if (about.group == 0) {
      decide(f);
      return;
    }
    if (decided_ || ended_) return;
    std::erase_if(questions_, [&](const question& q) {
      return q.what != purpose::lost_connection && q.what != purpose::ending && same_communicator(q.why, about);
    });
    control_message verdict = control_message::of(control_kind::verdict, f);
    verdict.group = about.group;
    verdict.fingerprint = hash_of_members(about);
    for (const int rank : *about.members)
      if (!at(rank).gone) out_->tell(rank, verdict);
  }
  [[gnu::cold]] void decide(const failure& f) {
    if (decided_ || ended_) return;
    decided_ = true;
    questions_.clear();
    for (int rank = 0; rank < size(); ++rank) out_->tell(rank, control_message::of(control_kind::verdict, f));
  }

  // Whoever has waited for a rank that left may have waited in another call.
  bool failed(int from, const control_message& m) {
    const int peer = m.peer < 0 ? from : rank_of_group(m, m.peer);
    if (m.code == errc::peer_failed && peer != from && (m.group != 0 || at(peer).left)) {
      ask(purpose::desertion, from, m, {from, peer}, control_message::all_calls);
    } else {
      tell_verdict(m, m.reason());
    }
    return true;
  }
  // A rank that is alive and has not left answers, and what it said before is known by then; the end of a dead one's
  // connection comes instead.
  bool suspects(int from, const control_message& m) {
    if (!at(m.peer).left) ask(purpose::lost_connection, from, m, {m.peer}, control_message::no_calls);
    return true;
  }
  bool differs(int from, const control_message& m) {
    ask(purpose::disagreement, from, m, {from, m.peer}, control_message::all_calls);
    return true;
  }
  bool misfits(int from, const control_message& m) {
    const call received = (*m.calls)[0].read();
    if (!received.is_message() || received.from() != rank_in(m, m.peer) || received.to() != rank_in(m, from))
      return false;
    ask(purpose::misfit, from, m, {m.peer}, control_message::all_messages);
    return true;
  }
  bool late(int from, const control_message& m) {
    for (const question& q : questions_)
      if (q.what == purpose::lateness && same_communicator(q.why, m)) return true;  // who asked first is answered first
    const std::uint64_t ticket = ask(purpose::lateness, from, m, ranks_of(m, size()), control_message::no_calls);
    if (ticket != 0) out_->expire(ticket, patience_ms);
    return true;
  }
  /// To the rank that it names, which is told who says it.
  bool pass_on(control_kind kind, int from, control_message m) {
    const int to = std::exchange(m.peer, from);
    m.kind = kind;
    m.text.clear();
    m.calls = nullptr;
    if (!decided_ && !at(to).gone) out_->tell(to, m);
    return true;
  }
  // Who looked is told so.
  bool is_gone(int from, const control_message& m) {
    control_message news;
    news.kind = control_kind::has_left;
    news.peer = from;
    news.group = m.group;
    news.number = m.number;
    news.ticket = m.ticket;
    if (!decided_ && !at(m.peer).gone) out_->tell(m.peer, news);
    return true;
  }

  // The communicators that ranks leave with; each says so before its goodbye.
  bool keeps(int from, const control_message& m) {
    if (at(from).left || at(from).kept++ == most_kept) return false;
    kept_.push_back({from, m.group, m.number, m.fingerprint, m.members});
    return true;
  }
  void goodbye(int from, const control_message& m) {
    rank_state& s = at(from);
    if (std::exchange(s.left, true)) return;
    s.last = m.number;
    s.fingerprint = m.fingerprint;
    ++left_;
    control_message news = m;
    news.kind = control_kind::has_left;
    news.peer = from;
    for (int rank = 0; rank < size(); ++rank)
      if (!at(rank).left) out_->tell(rank, news);
    if (left_ == size()) end();
  }
  void end() {
    if (decided_) return;
    for (int rank = 1; rank < size(); ++rank) {
      if (at(rank).last == at(0).last && at(rank).fingerprint == at(0).fingerprint) continue;
      control_message why;
      why.peer = rank;
      differs(0, why);
      return;
    }
    if (differ_in_part()) return;
    ended_ = true;
    control_message m;
    m.kind = control_kind::farewell;
    // Also one that is silent: it may only be stopped, and go on later.
    for (int rank = 0; rank < size(); ++rank) out_->tell(rank, m);
  }

  /// Two ranks left with a communicator on which they had not called the same: the group fails of that.
  bool differ_in_part() {
    std::sort(kept_.begin(), kept_.end(), [](const end_of_part& a, const end_of_part& b) {
      if (a.group != b.group) return b.group > a.group;  // clang takes another group for a template
      return *a.members != *b.members ? *a.members < *b.members : a.rank < b.rank;
    });
    for (std::size_t i = 1; i < kept_.size(); ++i) {
      const end_of_part& one = kept_[i - 1];
      const end_of_part& other = kept_[i];
      if (one.group != other.group || *one.members != *other.members) continue;
      if (one.number == other.number && one.fingerprint == other.fingerprint) continue;
      control_message why;
      why.peer = other.rank;
      why.group = other.group;
      why.members = other.members;
      ask(purpose::ending, one.rank, why, {one.rank, other.rank}, control_message::all_calls);
      return true;
    }
    return false;
  }

  /// Asks these ranks, and returns the ticket; 0 if all is decided already. Those that are gone need not answer.
  std::uint64_t ask(purpose what, int from, const control_message& why, const std::vector<int>& ranks,
                    std::uint64_t whole) {
    if (decided_ || ended_) return 0;
    const std::uint64_t ticket = ++tickets_;
    const auto asked =
        std::count_if(questions_.begin(), questions_.end(), [from](const question& q) { return q.from == from; });
    if (static_cast<std::size_t>(asked) >= most_asked + ranks_.size()) {
      decide(reports_too_much(from, most_asked + ranks_.size()));
      return 0;
    }
    questions_.push_back({ticket, what, from, why, {}});
    control_message m{.kind = control_kind::asks, .ticket = ticket, .number = whole, .group = why.group};
    m.fingerprint = hash_of_members(why);
    for (const int rank : ranks)
      questions_.back().answers.push_back({rank, at(rank).gone, why.group == 0 ? at(rank).last : 0, {}, nullptr});
    for (const int rank : ranks)
      if (!at(rank).gone) out_->tell(rank, m);
    if (complete(questions_.back())) conclude(questions_.end() - 1);
    return ticket;
  }
  void answers(int from, const control_message& m) { answered(from, m.ticket, m); }
  void answered(int rank, std::uint64_t ticket, const control_message& m) {
    const auto q = find(ticket);
    if (q == questions_.end()) return;
    for (answer& a : q->answers) {
      if (a.rank != rank) continue;
      a.here = true;
      a.last = std::max(a.last, m.number);
      a.trouble = m.text;
      a.calls = m.calls;
    }
    if (complete(*q)) conclude(q);
  }
  typename questions::iterator find(std::uint64_t ticket) {
    return std::find_if(questions_.begin(), questions_.end(), [&](const question& q) { return q.ticket == ticket; });
  }
  static bool complete(const question& q) {
    return std::all_of(q.answers.begin(), q.answers.end(), [](const answer& a) { return a.here; });
  }

  [[gnu::cold]] void conclude(typename questions::iterator at_question) {
    const question q = std::move(*at_question);
    questions_.erase(at_question);
    switch (q.what) {
      case purpose::lost_connection:
        if (at(q.why.peer).left) return;
        decide(q.answers[0].trouble.empty() ? failure{errc::peer_failed, q.why.peer, q.why.text}
                                            : too_short(q.why.peer, q.answers[0].trouble));
        return;
      case purpose::desertion:
        if (called_alike(log(q.answers[0]), log(q.answers[1]))) {
          tell_verdict(q.why, q.why.reason());
          return;
        }
        [[fallthrough]];
      case purpose::disagreement:
        decide(q.why, difference(q));
        return;
      case purpose::misfit: {
        const call received = (*q.why.calls)[0].read();
        decide(q.why, detail::misfit(received, log(q.answers[0]).find(received.to(), received.history)));
        return;
      }
      case purpose::lateness:
        decide(q.why, lateness(q));
        return;
      case purpose::ending: {
        failure f = difference(q);
        f.text += of_members(*q.why.members);
        decide(f);
        return;
      }
    }
  }

  static const recorded_calls& log(const answer& a) {
    static const recorded_calls none;
    return a.calls == nullptr ? none : *a.calls;
  }
  /// What both have called is the same.
  static bool called_alike(const recorded_calls& ones, const recorded_calls& others) {
    for (std::size_t i = 0; i < ones.size(); ++i) {
      const call one = ones[i].read();
      const call other = others.read(one.sequence);
      if (other.signature != nullptr && !alike(one, other)) return false;
    }
    return true;
  }

  static failure difference(const question& q) {
    const answer& one = q.answers[0];
    const answer& other = q.answers[1];
    return disagreement(rank_in(q.why, one.rank), log(one), rank_in(q.why, other.rank), log(other));
  }
  failure lateness(const question& q) const {
    const call during = (*q.why.calls)[0].read();
    const waiting_place here{rank_in(q.why, q.from), rank_in(q.why, q.why.peer), q.why.round, during};
    // In rank order, since all are asked. One that does not even answer is not where the others are.
    for (const answer& a : q.answers) {
      if (a.here) continue;
      const int rank = rank_in(q.why, a.rank);
      failure f = too_late(here, rank, q.why.milliseconds, true);
      f.text += message() << "; rank " << rank << " does not answer";
      return f;
    }
    const auto last = [&](int rank) { return q.answers[static_cast<std::size_t>(rank)].last; };
    const int who = last_to_come(here, size_of(q.why, size()), last);
    return too_late(here, who, q.why.milliseconds, last(who) >= during.sequence);
  }

  Out* out_;
  owned_array<rank_state> ranks_;
  questions questions_;
  std::vector<end_of_part> kept_;
  std::uint64_t tickets_ = 0;
  int left_ = 0;
  bool decided_ = false;
  bool ended_ = false;
};

}  // namespace tutti::detail
