// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/simulated/check_options.hpp>
#include <tutti/transport/simulated/event_loop.hpp>
#include <tutti/transport/simulated/part.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// What a rank throws that crashes: no std::exception, so that only those catch it who catch everything.
struct rank_crashed {};

/// What the ranks of one simulated run share.
class simulated_group : public event_loop {
 public:
  simulated_group(int size, const simulated_options& options)
      : event_loop(*this, checked_size(size, options), options),
        options_(allocating(sizeof options, "the options of the run", [&] { return options; })),
        overhead_(span_of(options.net.overhead)),
        sent_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), "the numbers of messages"),
        expected_(size) {
    if (options_.timeout == options_.timeout.zero() && !options_.drop.empty())
      options_.timeout = std::chrono::seconds(1);
  }
  simulated_group(const simulated_group&) = delete;
  simulated_group& operator=(const simulated_group&) = delete;
  ~simulated_group() {
    while (parts_ != &whole_) {
      simulated_part* const part = std::exchange(parts_, parts_->next);
      part->group = nullptr;
      if (part->all([](presence_in_part p) { return p != presence_in_part::present; })) delete part;
    }
  }

  std::chrono::nanoseconds timeout() const { return options_.timeout; }

  // ---- A rank comes and goes

  /// The rank's thread has begun. Returns when it is its turn, which is after all have come.
  void enter(int r) {
    {
      const std::lock_guard lock(gate_);
      rank(r).came = true;
      if (++came_ == expected_) rank(next_rank()).go.give();
    }
    rank(r).go.await();
  }
  /// The rank's function has returned or thrown; or its thread could not be started, nor those of the ranks after it.
  void leave(int r) {
    if (rank(r).came) {
      heed_abort();
      settle_departures(r);
    }
    if (!rank(r).came) {
      const std::lock_guard lock(gate_);
      for (int absent = r; absent < size_; ++absent) rank(absent).state = standing::left;
      expected_ = r;
      if (came_ == expected_ && came_ != 0) rank(next_rank()).go.give();
      return;
    }
    simulated_rank& gone = rank(r);
    gone.state = standing::left;
    ++happened_;
    makespan_ = later(makespan_, gone.clock);
    trace_.add({.kind = simulated_event_kind::left, .picoseconds = gone.clock, .from = r});
    // Those who wait for it look again, and see whether anything of it is still under way.
    for (int other = 0; other < size_; ++other)
      if (rank(other).state == standing::waiting && rank(other).looks_at->awaited_in_whole() == r)
        resume(rank(other), gone.clock);
    const int next = next_rank();
    if (next >= 0) rank(next).go.give();
  }
  using event_loop::check;
  /// Throws what the part failed of, if it failed, to a rank of it, which may have crashed.
  void check(simulated_part& part, int number) {
    if (rank(part.whole_rank(number)).crashed) throw rank_crashed{};
    heed_abort();
    check(part);
  }
  void check(int r) { check(whole_, r); }
  /// The part fails as soon as a rank looks; any thread.
  void abort(simulated_part& part, int number, std::string_view text) {
    const std::lock_guard lock(gate_);
    if (part.abort_asked) return;
    part.aborting = number;
    part.abort_text.assign(text.data(), text.size());
    part.abort_asked = true;
    abort_asked_.store(true, std::memory_order_release);
  }
  /// Whose exception it is that the run ends by; -1 for the first one.
  int culprit() const { return failed() && whole_.why.kind == errc::peer_failed ? whole_.why.peer : -1; }
  /// After every rank has left: fails the whole if they have not all made the same calls on it and on the parts that
  /// still exist.
  void check_same_calls() {
    compare_last_calls(whole_);
    for (simulated_part* part = parts_; part != nullptr && !failed(); part = part->next) {
      if (part->failed || !part->all([](presence_in_part p) { return p != presence_in_part::absent; })) continue;
      compare_last_calls(*part);
      if (part->failed) fail_as_told(whole_, part->why);
    }
  }
  simulated_report report() const { return {seconds_of(makespan_), messages_, bytes_, trace_.hash(), trace_.events()}; }

  // ---- A rank works

  cost_parameters costs() const {
    const network& net = options_.net;
    return {net.latency + net.gap, 2 * net.overhead, net.byte, net.fold};
  }

  /// Whoever is earlier goes on first.
  void catch_up(int r) { pass(r); }
  void spend(int r, virtual_time span) { rank(r).clock = after(rank(r).clock, span); }
  void fold(int r, std::size_t bytes) { spend(r, span_of(static_cast<double>(bytes) * options_.net.fold)); }
  void sleep_until(int r, virtual_time at) {
    rank(r).clock = later(rank(r).clock, at);
    pass(r);
  }

  /// A collective begins. Whether the others are in the same one is known at once.
  void open(lane_end& e, const call& c) {
    simulated_part& part = *e.part;
    const int r = part.whole_rank(e.rank);
    check(part, e.rank);
    catch_up(r);
    // A rank that only sends does not run ahead of the others without bound.
    while (rank(r).under_way > most_under_way && !agenda_.empty()) sleep_until(r, agenda_.next());
    check(part, e.rank);
    ++happened_;
    e.during = c;
    e.fingerprint = c.fingerprint();
    e.round = -1;
    e.awaited = -1;
    if (c.is_message()) return part.messages(e.rank).write(c);
    part.log(e.rank).write(c);
    compare_calls(e);
  }

  /// Whether the bytes have been copied.
  bool send(lane_end& here, int peer, const std::byte* data, std::size_t bytes, bool copy) {
    ++happened_;
    simulated_part& part = *here.part;
    const int r = part.whole_rank(here.rank);
    const int to = part.whole_rank(peer);
    simulated_rank& sender = rank(r);
    if (sender.crashed) throw rank_crashed{};
    for (const crashed_rank& c : options_.crash)
      if (c.rank == r && c.message == sender.sent) crash(here, peer);
    std::uint64_t& number =
        sent_[static_cast<std::size_t>(r) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
    lane_end& there = part.end(peer, here.index);
    message_queue& queue = there.queue(here.rank);
    auto* const m = allocating(sizeof(simulated_message), "a message", [&] {
      return new simulated_message{.from = r,
                                   .to = to,
                                   .sender = &here,
                                   .receiver = &there,
                                   .number = number,
                                   .fingerprint = here.fingerprint,
                                   .bytes = bytes};
    });
    queue.push(m);
    m->source = data;
    if (copy) {
      m->take_bytes();
    } else {
      here.leaving.push_back(m);
    }
    spend(r, overhead_);
    const virtual_time begins = links_.depart(r, sender.clock, bytes);
    m->leaves = after(begins, links_.span(bytes));
    for (const dropped_message& d : options_.drop) m->dropped |= d.from == r && d.to == to && d.message == number;
    trace_.add({.kind = m->dropped ? simulated_event_kind::dropped : simulated_event_kind::sent,
                .picoseconds = sender.clock,
                .from = r,
                .to = to,
                .lane = here.index,
                .message = number,
                .bytes = bytes});
    if (!m->dropped) {
      queue.last_arrival = later(queue.last_arrival, after(begins, links_.under_way(r, to, number)));
      agenda_.put(queue.last_arrival, m, true);
      ++sender.under_way;
      ++part.under_way;
    }
    ++sender.sent;
    ++number;
    ++messages_;
    bytes_ += bytes;
    return copy;
  }

  /// Takes the next message of the peer, if it is there.
  bool receive(lane_end& e, int peer, std::byte* data, std::size_t bytes) {
    message_queue& queue = e.queue(peer);
    simulated_message* const m = queue.front();
    if (m == nullptr || !m->delivered) {
      e.awaited = peer;
      return false;
    }
    if (m->fingerprint != e.fingerprint || m->bytes != bytes) refuse(e, peer, *m, bytes);
    if (bytes != 0) std::memcpy(data, m->copy.data(), bytes);
    delete queue.pop();
    e.awaited = -1;
    ++happened_;
    const int r = e.part->whole_rank(e.rank);
    rank(r).looks_at = nullptr;
    spend(r, overhead_);
    return true;
  }

  // ---- A rank waits

  /// Until something that it waits for has been delivered. Throws where that cannot be, or not within the limit.
  void wait(lane_end& e, virtual_time limit) {
    const int r = e.part->whole_rank(e.rank);
    simulated_rank& me = rank(r);
    look(r, e);
    const virtual_time deadline = after(e.started, limit);
    if (me.clock >= deadline) expire(r, e);
    if (!std::exchange(me.news, false)) {
      me.state = standing::waiting;
      me.deadline = deadline;
      pass(r);
    }
    check(*e.part, e.rank);
    if (!std::exchange(me.news, false) && me.clock >= deadline) expire(r, e);
  }

  /// A look in vain takes a little time, so that the others come to their turns.
  void poll(lane_end& e, virtual_time limit) {
    const int r = e.part->whole_rank(e.rank);
    look(r, e);
    simulated_rank& me = rank(r);
    spend(r, later(overhead_, shortest_look));
    const virtual_time deadline = after(e.started, limit);
    if (std::exchange(me.looked, happened_) != happened_) me.looks = 0;
    if (e.awaited >= 0 && ++me.looks > many_looks) {
      // However often it looks, nothing comes before somebody else goes on.
      const virtual_time next = next_happening();
      if (next != never) me.clock = later(me.clock, std::min(next, deadline));
      if (all_look_in_vain()) {
        if (limit != never) expire(r, e);
        fail_all(deadlock());
        check(*e.part);
      }
    }
    if (me.clock >= deadline) expire(r, e);
    pass(r);
    check(*e.part, e.rank);
  }

 private:
  void heed_abort() {
    if (!abort_asked_.load(std::memory_order_acquire)) [[likely]]
      return;
    const std::lock_guard lock(gate_);
    abort_asked_.store(false, std::memory_order_relaxed);
    for (simulated_part* part = parts_; part != nullptr; part = part->next) {
      if (!part->abort_asked || part->failed) continue;
      if (part->is_whole()) {
        end_rank(part->aborting, (message() << " aborted: " << part->abort_text).str());
      } else {
        fail(*part, aborted(part->aborting, part->abort_text));
      }
    }
  }

  static constexpr virtual_time shortest_look = 1000;
  static constexpr std::uint64_t most_looks = 20'000;
  static constexpr std::uint64_t most_under_way = 4096;  // messages of one rank

  /// Nothing is under way, and every rank waits or has looked often since anything else happened: nothing ever will.
  bool all_look_in_vain() {
    return agenda_.empty() && std::all_of(ranks_.begin(), ranks_.end(), [this](const simulated_rank& r) {
             return r.state == standing::ready ? keeps_looking(r, most_looks)
                                               : r.state == standing::left || r.deadline == never;
           });
  }

  void compare_calls(const lane_end& e) {
    simulated_part& part = *e.part;
    for (int other = 0; other < part.size(); ++other) {
      if (other == e.rank) continue;
      const call theirs = part.log(other).read(e.during.sequence);
      if (theirs.signature == nullptr || theirs.fingerprint() == e.fingerprint) continue;
      disagree(part, e.rank, other);
      check(part);
    }
  }
  void compare_last_calls(simulated_part& part) {
    for (int r = 1; r < part.size() && !part.failed; ++r)
      if (!same_last_call(part.log(0), part.log(r))) disagree(part, 0, r);
  }

  [[noreturn]] void crash(const lane_end& e, int peer) {
    const int r = e.part->whole_rank(e.rank);
    rank(r).crashed = true;
    const int to = e.part->whole_rank(peer);
    trace_.add({.kind = simulated_event_kind::crashed, .picoseconds = rank(r).clock, .from = r, .to = to});
    const auto reason = [&](int number, int receiver) {
      message text;
      text << "rank " << number << " crashed before it sent its message " << rank(r).sent << ", to rank " << receiver
           << e.place();
      return failure{errc::peer_failed, number, text};
    };
    fail(reason(r, to));
    fail(*e.part, reason(e.rank, peer));
    end_rank(r, (message() << " crashed before it sent its message " << rank(r).sent).str());
    throw rank_crashed{};
  }

  [[noreturn]] void refuse(const lane_end& e, int peer, const simulated_message& m, std::size_t bytes) {
    if (m.fingerprint == e.fingerprint) {
      fail(*e.part, unexpected_size({e.rank, peer, e.round, e.during}, m.bytes, bytes));
    } else if (e.during.is_message()) {
      fail(*e.part, misfit(e.during, e.part->messages(peer).find(peer, e.rank, e.during.history)));
    } else {
      disagree(*e.part, e.rank, peer);
    }
    e.part->why.raise();
  }

  /// After a look in vain: what is waited for may never come.
  void look(int r, lane_end& e) {
    check(*e.part, e.rank);
    settle_departures(r);
    simulated_rank& me = rank(r);
    me.looks_at = &e;
    if (e.started == never) e.started = me.clock;
    if (e.awaited < 0 || !has_left(*e.part, e.awaited) || e.queue(e.awaited).front() != nullptr) return;
    fail(*e.part, left_early(e.place()));
    check(*e.part);
  }

  [[noreturn]] void expire(int r, lane_end& e) {
    simulated_part& part = *e.part;
    const auto last = [&part](int other) { return part.log(other).last(); };
    const waiting_place here = e.place();
    int late = last_to_come(here, part.size(), last);
    // Whoever is late may itself wait for another, and in the end for a message that was lost.
    const simulated_message* lost = e.lost() != nullptr ? e.lost() : lost_behind(r);
    if (lost != nullptr && lost->receiver->part != &part) lost = nullptr;
    if (lost != nullptr) {
      late = lost->sender->rank;
    } else {
      int who = late;
      for (int step = 0; step < part.size(); ++step) {
        const lane_end* const at = rank(part.whole_rank(who)).looks_at;
        if (at == nullptr || at->part != &part || at->awaited < 0) {
          late = who;
          break;
        }
        who = at->awaited;
      }
    }
    const auto waited = (rank(r).clock - e.started) / 1'000'000'000;
    failure f = too_late(here, late, waited, last(late) >= e.during.sequence);
    if (lost != nullptr)
      f.text += message() << "; its message " << lost->number << " to rank " << lost->receiver->rank << " was lost";
    fail(part, std::move(f));
    part.why.raise();
  }

  simulated_options options_;
  virtual_time overhead_;
  owned_array<std::uint64_t> sent_;  // by each rank to each
  virtual_time makespan_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::mutex gate_;  // before the first turn, ranks come at the same time
  int expected_;
  int came_ = 0;
  std::atomic<bool> abort_asked_{false};  // of some part
};

/// A rank's end of a subgroup goes, perhaps after the run.
inline void depart(simulated_part& part, int number, bool by_exception) noexcept {
  if (part.group != nullptr) return part.group->depart(part, number, by_exception);
  part.presence(number) = presence_in_part::left;
  if (part.all([](presence_in_part p) { return p != presence_in_part::present; })) delete &part;
}

}  // namespace tutti::detail
