// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/simulated/agenda.hpp>
#include <tutti/transport/simulated/chance.hpp>
#include <tutti/transport/simulated/links.hpp>
#include <tutti/transport/simulated/options.hpp>
#include <tutti/transport/simulated/part.hpp>
#include <tutti/transport/simulated/rank.hpp>
#include <tutti/transport/simulated/trace.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// Lets happen what is next in virtual time: a message arrives, or a rank goes on. One rank at a time runs, and calls
/// this when it must wait; so nothing here is locked.
class event_loop {
 public:
  event_loop(simulated_group& group, int size, const simulated_options& options)
      : size_(size),
        ranks_(static_cast<std::size_t>(size)),
        links_(size, options),
        agenda_(options.seed),
        trace_(options.record),
        draws_(chance(options.seed).of(2)),
        whole_(group, size),
        parts_(&whole_) {
    for (int r = 0; r < size; ++r) whole_.presence(r) = presence_in_part::present;
  }

  int size() const { return size_; }
  simulated_rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  simulated_part& whole() { return whole_; }

  bool failed() const noexcept { return whole_.failed; }
  /// Throws what the part failed of, if it failed.
  static void check(const simulated_part& part) {
    if (part.failed) part.why.raise();
  }
  void check() const { check(whole_); }
  /// The part becomes unusable; the first reason stays. Those who wait in it go on. Ranks are those of the part.
  void fail(simulated_part& part, failure f) {
    if (part.failed) return;
    f.text += part.described();
    fail_as_told(part, std::move(f));
  }
  void fail(failure f) { fail(whole_, std::move(f)); }
  /// The whole fails, and so does every part that has the rank. `how` follows its number in their texts.
  void end_rank(int r, std::string_view how) {
    rank(r).ended.assign(how.data(), how.size());
    for_parts_of(r, [&](simulated_part& part, int number) {
      if (part.presence(number) != presence_in_part::left) miss(part, number);
    });
  }
  /// The two ranks have not made the same calls.
  void disagree(simulated_part& part, int one, int other) {
    fail(part, disagreement(one, part.log(one), other, part.log(other)));
  }

  // ---- Subgroups

  int next_group(const simulated_part& part, int number) { return rank(part.whole_rank(number)).next_group; }
  /// The part of that number of these ranks of `parent`, which one of them enters.
  simulated_part& subgroup(simulated_part& parent, int entering, int number, std::span<const int> members) {
    const int me = parent.whole_rank(entering);
    settle_departures(me);
    simulated_part* part = parts_;
    while (part != nullptr && (part->number != number || part->whole_rank(0) != parent.whole_rank(members[0])))
      part = part->next;
    if (part == nullptr) {
      try {
        part = allocating(sizeof(simulated_part), "a communicator",
                          [&] { return new simulated_part(parent, number, members); });
      } catch (...) {
        miss_groups_before(me, number + 1);
        throw;
      }
      part->next = std::exchange(parts_, part);
      for (int other = 0; other < part->size(); ++other)
        if (!rank(part->whole_rank(other)).ended.empty()) miss(*part, other);
    }
    rank(me).next_group = number + 1;
    part->presence(part->number_of(me)) = presence_in_part::present;
    return *part;
  }
  /// The rank comes to no part that ranks of this one have agreed on so far.
  void miss_groups(simulated_part& part, int number) noexcept {
    int next = 0;
    for (int other = 0; other < part.size(); ++other) next = std::max(next, next_group(part, other));
    miss_groups_before(part.whole_rank(number), next == INT_MAX ? next : next + 1);
  }
  /// A rank's end of a subgroup goes.
  void depart(simulated_part& part, int number, bool by_exception) noexcept {
    const int me = part.whole_rank(number);
    if (by_exception) {
      part.presence(number) = presence_in_part::unwinding;
      rank(me).unwinding = true;
      return;
    }
    part.presence(number) = presence_in_part::left;
    gone_from(part, number);
  }
  /// What a rank left while an exception passed it has left indeed: it is here, or its function has ended.
  void settle_departures(int r) noexcept {
    if (!std::exchange(rank(r).unwinding, false)) return;
    for_parts_of(r, [&](simulated_part& part, int number) {
      if (part.presence(number) == presence_in_part::unwinding) depart(part, number, false);
    });
  }

 protected:
  /// The same with a text in which ranks are those of the whole.
  void fail_as_told(simulated_part& part, failure f) {
    if (std::exchange(part.failed, true)) return;
    part.why = std::move(f);
    const virtual_time at = running_ < 0 ? now_ : later(now_, rank(running_).clock);
    for (simulated_rank& r : ranks_)
      if (r.state == standing::waiting && r.looks_at->part == &part) resume(r, at);
    const int peer = part.why.peer;
    trace_.add(
        {.kind = simulated_event_kind::failed, .picoseconds = at, .from = peer < 0 ? peer : part.whole_rank(peer)});
  }

  /// Gives the turn to who is next, and comes back when it is this rank's again.
  void pass(int r) {
    const int next = next_rank();
    if (next == r) return;
    rank(next).go.give();
    rank(r).go.await();
  }

  /// The rank whose turn it is, after all that happens before it goes on; -1 if all have left.
  int next_rank() {
    for (;;) {
      const int next = first_rank();
      const virtual_time at = next < 0 ? never : when(rank(next));
      bool woken = false;
      while (!woken && !agenda_.empty() && agenda_.next() <= at) woken = happen_or_fail(agenda_.take());
      if (woken) continue;
      if (next >= 0) {
        if (rank(next).state == standing::waiting) resume(rank(next), at);  // its deadline has passed
        now_ = later(now_, at);
        running_ = next;
        ++turns_;
        return next;
      }
      if (std::all_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.state == standing::left; })) return -1;
      fail_all(deadlock());
    }
  }
  /// Nobody goes on any more: what anybody waits in fails, and so does the whole.
  void fail_all(const failure& f) {
    fail_as_told(whole_, f);
    for (int r = 0; r < size_; ++r) {
      if (rank(r).looks_at == nullptr || rank(r).state == standing::left) continue;
      simulated_part& part = *rank(r).looks_at->part;
      failure here = f;
      if (f.peer >= 0) here.peer = part.number_of(f.peer);
      fail_as_told(part, std::move(here));
    }
  }

  /// Calls `f(part, number)` for the whole and each other part that has the rank, with its number there.
  template <class F>
  void for_parts_of(int r, F&& f) {
    for (simulated_part* part = parts_; part != nullptr;) {
      simulated_part* const next = part->next;
      const int number = part->number_of(r);
      if (number >= 0) f(*part, number);
      part = next;
    }
  }
  /// The part fails since that rank of it has failed.
  void miss(simulated_part& part, int number) {
    fail(part, {errc::peer_failed, number, message() << "rank " << number << rank(part.whole_rank(number)).ended});
  }
  /// The others get theirs of these parts, and find that the rank does not come.
  void miss_groups_before(int r, int number) noexcept {
    rank(r).next_group = number;
    for_parts_of(r, [&](simulated_part& part, int here) {
      if (part.presence(here) == presence_in_part::absent && part.number < number) gone_from(part, here);
    });
  }
  /// Who waits for that rank in the part, which does no more there, looks again.
  void gone_from(simulated_part& part, int number) noexcept {
    ++happened_;
    const virtual_time at = rank(part.whole_rank(number)).clock;
    for (simulated_rank& r : ranks_)
      if (r.state == standing::waiting && r.looks_at->part == &part && r.looks_at->awaited == number) resume(r, at);
    end_part_if_over(part);
  }
  /// All have left the part, and nothing is under way in it.
  void end_part_if_over(simulated_part& part) noexcept {
    if (part.is_whole() || part.under_way != 0 || !all_have_left(part)) return;
    simulated_part** at = &parts_;
    while (*at != &part) at = &(*at)->next;
    *at = part.next;
    for (simulated_rank& r : ranks_)
      if (r.looks_at != nullptr && r.looks_at->part == &part) r.looks_at = nullptr;
    delete &part;
  }
  /// The rank does no more in the part.
  bool has_left(simulated_part& part, int number) {
    const presence_in_part presence = part.presence(number);
    const simulated_rank& in_whole = rank(part.whole_rank(number));
    return presence == presence_in_part::left || in_whole.state == standing::left ||
           (presence == presence_in_part::absent && in_whole.next_group > part.number);
  }

  /// The rank has looked in vain more often than `times`, and nothing else has happened since.
  bool keeps_looking(const simulated_rank& r, std::uint64_t times) const {
    return r.state == standing::ready && r.looked == happened_ && r.looks > times;
  }
  /// When something happens besides looks in vain; `never` if nothing does.
  virtual_time next_happening() const {
    virtual_time next = agenda_.empty() ? never : agenda_.next();
    for (int r = 0; r < size_; ++r) {
      const simulated_rank& one = ranks_[static_cast<std::size_t>(r)];
      if (!keeps_looking(one, many_looks)) next = std::min(next, when(one));
    }
    return next;
  }

  static void resume(simulated_rank& r, virtual_time at) {
    r.state = standing::ready;
    r.clock = later(r.clock, at);
    r.deadline = never;
  }
  /// What the rank waits for is there.
  static void wake(simulated_rank& r, virtual_time at) {
    r.news = true;
    if (r.state == standing::waiting) resume(r, at);
  }

  /// Nothing is under way, and nobody goes on by itself: who waits for whom. Ranks are those of the whole.
  failure deadlock() {
    message text;
    text << "deadlock: nothing is under way, and ";
    int awaited = -1;
    int told = 0;
    for (int r = 0; r < size_; ++r) {
      const lane_end* const at = rank(r).looks_at;
      const bool gone = rank(r).state == standing::left;
      if (!gone && at == nullptr) continue;
      if (++told > most_told) continue;
      text << (told == 1 ? "" : "; ") << "rank " << r;
      if (gone) {
        text << " has left";
      } else {
        if (awaited < 0) awaited = at->awaited_in_whole();
        text << " waits for rank " << at->awaited_in_whole() << at->place();
        if (!at->part->is_whole()) text << at->part->described();
      }
    }
    if (told > most_told) text << "; and " << told - most_told << " more";
    const simulated_message* lost = nullptr;
    for (int r = 0; r < size_ && lost == nullptr; ++r) lost = lost_to(r);
    if (lost == nullptr) return {errc::timed_out, awaited, text};
    text << "; rank " << lost->from << "'s message " << lost->number << " to rank " << lost->to << " was lost";
    return {errc::timed_out, lost->from, text};
  }

  /// A lost message that the rank looked for in vain, in whichever of its collectives; null if there is none.
  const simulated_message* lost_to(int r) {
    const simulated_message* lost = nullptr;
    for_parts_of(r, [&](simulated_part& part, int number) {
      for (const lane_end* const at : part.lanes(number))
        if (at != nullptr && lost == nullptr) lost = at->lost();
    });
    return lost;
  }
  /// The same for the rank, those whom it waits for, those whom these wait for, and so on.
  const simulated_message* lost_behind(int r) {
    owned_array<bool> met(static_cast<std::size_t>(size_));
    array_list<int> ask;
    const auto meet = [&](int other) {
      if (!std::exchange(met[static_cast<std::size_t>(other)], true)) ask.push_back(other);
    };
    meet(r);
    for (std::size_t i = 0; i < ask.size(); ++i) {
      if (const simulated_message* const lost = lost_to(ask[i])) return lost;
      for_parts_of(ask[i], [&](simulated_part& part, int number) {
        for (const lane_end* const at : part.lanes(number))
          if (at != nullptr && at->awaited >= 0) meet(at->awaited_in_whole());
      });
    }
    return nullptr;
  }

  static constexpr std::uint64_t many_looks = 1000;

  int size_;
  owned_array<simulated_rank> ranks_;
  links links_;
  agenda agenda_;
  trace trace_;
  virtual_time now_ = 0;  // of the last event
  int running_ = -1;
  std::uint64_t happened_ = 0;  // changes whenever anything happens but looks in vain

 private:
  static constexpr int most_told = 16;

  static virtual_time when(const simulated_rank& r) {
    return r.state == standing::ready ? r.clock : r.state == standing::waiting ? r.deadline : never;
  }
  /// Who is to go on first, if anybody; the seed decides between those who could at the same time.
  int first_rank() {
    int first = -1;
    virtual_time earliest = never;
    for (int r = 0; r < size_; ++r) {
      const virtual_time at = when(rank(r));
      if (at > earliest || (at == never && rank(r).state != standing::ready)) continue;
      if (first >= 0 && at == earliest && draw(first) < draw(r)) continue;
      first = r;
      earliest = at;
    }
    return first;
  }
  std::uint64_t draw(int r) const { return draws_.of(turns_).of(static_cast<unsigned>(r)).bits(); }

  /// Whether ranks have been woken. Whose turn it is, or has been, has nothing to do with the memory that is refused.
  bool happen_or_fail(const agenda::entry& e) {
    try {
      return happen(e);
    } catch (const resource_error&) {
      const simulated_message& m = *e.what;
      fail(*m.receiver->part,
           {errc::resource, m.sender->rank,
            message() << "the system refused memory for message " << m.number << " from rank " << m.sender->rank
                      << " to rank " << m.receiver->rank << ", of " << m.bytes << " bytes"});
      return true;
    }
  }
  /// Whether a rank has been woken.
  bool happen(const agenda::entry& e) {
    now_ = e.at;
    ++happened_;
    simulated_message& m = *e.what;
    lane_end& there = *m.receiver;
    if (m.dropped) {
      arrived(m);
      return false;
    }
    message_queue& queue = there.queue(m.sender->rank);
    if (e.arrives) {
      queue.last_delivery = later(queue.last_delivery, links_.arrive(m.to, e.at, m.bytes));
      agenda_.put(queue.last_delivery, &m, false);
      return false;
    }
    if (m.source != nullptr) {
      m.take_bytes();
      auto& leaving = m.sender->leaving;
      leaving.erase(std::find(leaving.begin(), leaving.end(), &m));
    }
    m.delivered = true;
    trace_.add({.kind = simulated_event_kind::delivered,
                .picoseconds = e.at,
                .from = m.from,
                .to = m.to,
                .lane = there.index,
                .message = m.number,
                .bytes = m.bytes});
    const bool awaited = there.awaited == m.sender->rank && queue.front() == &m;
    const int to = m.to;
    arrived(m);
    if (awaited) wake(rank(to), e.at);
    return awaited;
  }
  /// Nothing will happen to the message any more; it may end with its part.
  void arrived(const simulated_message& m) {
    --rank(m.from).under_way;
    simulated_part& part = *m.receiver->part;
    --part.under_way;
    end_part_if_over(part);
  }
  bool all_have_left(simulated_part& part) {
    for (int r = 0; r < part.size(); ++r) {
      const presence_in_part presence = part.presence(r);
      const bool missed = presence == presence_in_part::absent && rank(part.whole_rank(r)).next_group > part.number;
      if (presence != presence_in_part::left && !missed) return false;
    }
    return true;
  }

  std::uint64_t turns_ = 0;
  chance draws_;

 protected:
  simulated_part whole_;
  simulated_part* parts_;  // all of them, a list; the whole comes last
};

}  // namespace tutti::detail
