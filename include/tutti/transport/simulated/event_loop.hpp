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
#include <tutti/transport/simulated/rank.hpp>
#include <tutti/transport/simulated/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// Lets happen what is next in virtual time: a message arrives, or a rank goes on. One rank at a time runs, and calls
/// this when it must wait; so nothing here is locked.
class event_loop {
 public:
  event_loop(int size, const simulated_options& options)
      : size_(size),
        ranks_(static_cast<std::size_t>(size)),
        links_(size, options),
        agenda_(options.seed),
        trace_(options.record),
        draws_(chance(options.seed).of(2)) {}

  int size() const { return size_; }
  simulated_rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  /// That rank's end of a lane; made by whoever asks first.
  lane_end& end(int r, int lane) {
    auto& lanes = rank(r).lanes;
    const auto index = static_cast<std::size_t>(lane);
    while (lanes.size() <= index) lanes.push_back(nullptr);
    if (lanes[index] == nullptr)
      lanes[index] =
          allocating(sizeof(lane_end), "a lane of the simulated network", [&] { return new lane_end(size_); });
    return *lanes[index];
  }

  bool failed() const noexcept { return failed_; }
  /// Throws what the group failed of, if it failed.
  void check() const {
    if (failed_) failure_.raise();
  }
  /// The group becomes unusable; the first reason stays. Those who wait go on.
  void fail(failure f) {
    if (std::exchange(failed_, true)) return;
    failure_ = std::move(f);
    const virtual_time at = running_ < 0 ? now_ : later(now_, rank(running_).clock);
    for (int r = 0; r < size_; ++r)
      if (rank(r).state == standing::waiting) resume(rank(r), at);
    trace_.add({.kind = simulated_event_kind::failed, .picoseconds = at, .from = failure_.peer});
  }
  /// The two ranks have not made the same calls.
  void disagree(int one, int other) { fail(disagreement(one, rank(one).log, other, rank(other).log)); }

 protected:
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
      fail(deadlock());
    }
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

  /// Nothing is under way, and nobody goes on by itself: who waits for whom.
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
        if (awaited < 0) awaited = at->awaited;
        text << " waits for rank " << at->awaited << at->place(r);
      }
    }
    if (told > most_told) text << "; and " << told - most_told << " more";
    const simulated_message* lost = nullptr;
    for (int r = 0; r < size_ && lost == nullptr; ++r) lost = lost_to(r);
    if (lost == nullptr) return {errc::timed_out, awaited, text};
    text << "; rank " << lost->from << "'s " << *lost;
    return {errc::timed_out, lost->from, text};
  }

  /// A lost message that the rank looked for in vain, in whichever of its collectives; null if there is none.
  const simulated_message* lost_to(int r) {
    for (const lane_end* const at : rank(r).lanes) {
      const simulated_message* const lost = at == nullptr ? nullptr : at->lost();
      if (lost != nullptr) return lost;
    }
    return nullptr;
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
      for (const lane_end* const at : rank(ask[i]).lanes)
        if (at != nullptr && at->awaited >= 0) meet(at->awaited);
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
      fail({errc::resource, m.from,
            message() << "the system refused memory for message " << m.number << " from rank " << m.from << " to rank "
                      << m.to << ", of " << m.bytes << " bytes"});
      return true;
    }
  }
  /// Whether a rank has been woken.
  bool happen(const agenda::entry& e) {
    now_ = e.at;
    ++happened_;
    simulated_message& m = *e.what;
    if (m.dropped) {
      --rank(m.from).under_way;
      return false;
    }
    lane_end& there = end(m.to, m.lane);
    message_queue& queue = there.queue(m.from);
    if (e.arrives) {
      queue.last_delivery = later(queue.last_delivery, links_.arrive(m.to, e.at, m.bytes));
      agenda_.put(queue.last_delivery, &m, false);
      return false;
    }
    if (m.source != nullptr) {
      m.take_bytes();
      auto& leaving = end(m.from, m.lane).leaving;
      leaving.erase(std::find(leaving.begin(), leaving.end(), &m));
    }
    m.delivered = true;
    --rank(m.from).under_way;
    trace_.add({.kind = simulated_event_kind::delivered,
                .picoseconds = e.at,
                .from = m.from,
                .to = m.to,
                .lane = m.lane,
                .message = m.number,
                .bytes = m.bytes});
    if (there.awaited != m.from || queue.front() != &m) return false;
    wake(rank(m.to), e.at);
    return true;
  }

  std::uint64_t turns_ = 0;
  chance draws_;
  bool failed_ = false;
  failure failure_;

 protected:
  const failure& reason() const { return failure_; }
};

}  // namespace tutti::detail
