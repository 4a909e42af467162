// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/simulated/event_loop.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// What a rank throws that crashes: no std::exception, so that only those catch it who catch everything.
struct rank_crashed {};

/// What the ranks of one simulated run share.
class simulated_group : public event_loop {
 public:
  simulated_group(int size, const simulated_options& options)
      : event_loop(checked(size, options), options),
        options_(allocating(sizeof options, "the options of the run", [&] { return options; })),
        overhead_(span_of(options.net.overhead)),
        sent_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), "the numbers of messages"),
        expected_(size) {
    if (options_.timeout == options_.timeout.zero() && !options_.drop.empty())
      options_.timeout = std::chrono::seconds(1);
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
    if (rank(r).came) heed_abort();
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
      if (rank(other).state == standing::waiting && rank(other).looks_at->awaited == r) resume(rank(other), gone.clock);
    const int next = next_rank();
    if (next >= 0) rank(next).go.give();
  }
  using event_loop::check;
  /// The same for a rank, which may have crashed.
  void check(int r) {
    if (rank(r).crashed) throw rank_crashed{};
    heed_abort();
    check();
  }
  /// The group fails as soon as a rank looks; any thread.
  void abort(int r, std::string_view text) {
    failure f = aborted(r, text);
    const std::lock_guard lock(gate_);
    if (abort_asked_.load(std::memory_order_relaxed)) return;
    abort_ = std::move(f);
    abort_asked_.store(true, std::memory_order_release);
  }
  /// Whose exception it is that the run ends by; -1 for the first one.
  int culprit() const { return failed() && reason().kind == errc::peer_failed ? reason().peer : -1; }
  /// After every rank has left: fails the group if they have not all made the same calls.
  void check_same_calls() {
    for (int r = 1; r < size_ && !failed(); ++r)
      if (!same_last_call(rank(0).log, rank(r).log)) disagree(0, r);
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
  void open(int r, lane_end& e, const call& c) {
    check(r);
    catch_up(r);
    // A rank that only sends does not run ahead of the others without bound.
    while (rank(r).under_way > most_under_way && !agenda_.empty()) sleep_until(r, agenda_.next());
    check(r);
    ++happened_;
    e.during = c;
    e.fingerprint = c.fingerprint();
    e.round = -1;
    e.awaited = -1;
    rank(r).log.write(c);
    compare_calls(r, e);
  }

  /// Whether the bytes have been copied.
  bool send(int r, int lane, int peer, const std::byte* data, std::size_t bytes, bool copy) {
    ++happened_;
    simulated_rank& sender = rank(r);
    if (sender.crashed) throw rank_crashed{};
    lane_end& here = end(r, lane);
    for (const crashed_rank& c : options_.crash)
      if (c.rank == r && c.message == sender.sent) crash(r, peer, here);
    std::uint64_t& number =
        sent_[static_cast<std::size_t>(r) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(peer)];
    message_queue& queue = end(peer, lane).queue(r);
    auto* const m = allocating(sizeof(simulated_message), "a message", [&] {
      return new simulated_message{
          .from = r, .to = peer, .lane = lane, .number = number, .fingerprint = here.fingerprint, .bytes = bytes};
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
    for (const dropped_message& d : options_.drop) m->dropped |= d.from == r && d.to == peer && d.message == number;
    trace_.add({.kind = m->dropped ? simulated_event_kind::dropped : simulated_event_kind::sent,
                .picoseconds = sender.clock,
                .from = r,
                .to = peer,
                .lane = lane,
                .message = number,
                .bytes = bytes});
    if (!m->dropped) {
      queue.last_arrival = later(queue.last_arrival, after(begins, links_.under_way(r, peer, number)));
      agenda_.put(queue.last_arrival, m, true);
      ++sender.under_way;
    }
    ++sender.sent;
    ++number;
    ++messages_;
    bytes_ += bytes;
    return copy;
  }

  /// Takes the next message of the peer, if it is there.
  bool receive(int r, lane_end& e, int peer, std::byte* data, std::size_t bytes) {
    message_queue& queue = e.queue(peer);
    simulated_message* const m = queue.front();
    if (m == nullptr || !m->delivered) {
      e.awaited = peer;
      return false;
    }
    if (m->fingerprint != e.fingerprint || m->bytes != bytes) refuse(r, e, peer, *m, bytes);
    if (bytes != 0) std::memcpy(data, m->copy.data(), bytes);
    delete queue.pop();
    e.awaited = -1;
    ++happened_;
    rank(r).looks_at = nullptr;
    spend(r, overhead_);
    return true;
  }

  // ---- A rank waits

  /// Until something that it waits for has been delivered. Throws where that cannot be, or not within the limit.
  void wait(int r, lane_end& e, virtual_time limit) {
    simulated_rank& me = rank(r);
    look(r, e);
    const virtual_time deadline = after(e.started, limit);
    if (me.clock >= deadline) expire(r, e);
    if (!std::exchange(me.news, false)) {
      me.state = standing::waiting;
      me.deadline = deadline;
      pass(r);
    }
    check(r);
    if (!std::exchange(me.news, false) && me.clock >= deadline) expire(r, e);
  }

  /// A look in vain takes a little time, so that the others come to their turns.
  void poll(int r, lane_end& e, virtual_time limit) {
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
        fail(deadlock());
        check();
      }
    }
    if (me.clock >= deadline) expire(r, e);
    pass(r);
    check(r);
  }

 private:
  void heed_abort() {
    if (abort_asked_.load(std::memory_order_acquire)) [[unlikely]]
      fail(abort_);  // which nobody writes any more
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

  void compare_calls(int r, const lane_end& e) {
    for (int other = 0; other < size_; ++other) {
      if (other == r) continue;
      const call theirs = rank(other).log.read(e.during.sequence);
      if (theirs.signature == nullptr || theirs.fingerprint() == e.fingerprint) continue;
      disagree(r, other);
      check();
    }
  }

  [[noreturn]] void crash(int r, int peer, const lane_end& e) {
    rank(r).crashed = true;
    trace_.add({.kind = simulated_event_kind::crashed, .picoseconds = rank(r).clock, .from = r, .to = peer});
    message text;
    text << "rank " << r << " crashed before it sent its message " << rank(r).sent << ", to rank " << peer
         << e.place(r);
    fail({errc::peer_failed, r, text});
    throw rank_crashed{};
  }

  [[noreturn]] void refuse(int r, const lane_end& e, int peer, const simulated_message& m, std::size_t bytes) {
    if (m.fingerprint == e.fingerprint) {
      fail(unexpected_size({r, peer, e.round, e.during}, m.bytes, bytes));
    } else {
      disagree(r, peer);
    }
    reason().raise();
  }

  /// After a look in vain: what is waited for may never come.
  void look(int r, lane_end& e) {
    check(r);
    simulated_rank& me = rank(r);
    me.looks_at = &e;
    if (e.started == never) e.started = me.clock;
    if (e.awaited < 0 || rank(e.awaited).state != standing::left || e.queue(e.awaited).front() != nullptr) return;
    fail(left_early(e.place(r)));
    check();
  }

  [[noreturn]] void expire(int r, lane_end& e) {
    const auto last = [this](int other) { return rank(other).log.last(); };
    const waiting_place here = e.place(r);
    int late = last_to_come(here, size_, last);
    // Whoever is late may itself wait for another, and in the end for a message that was lost.
    const simulated_message* const lost = e.lost() != nullptr ? e.lost() : lost_behind(r);
    if (lost != nullptr) {
      late = lost->from;
    } else {
      int who = late;
      for (int step = 0; step < size_; ++step) {
        const lane_end* const at = rank(who).looks_at;
        if (at == nullptr || at->awaited < 0) {
          late = who;
          break;
        }
        who = at->awaited;
      }
    }
    const auto waited = (rank(r).clock - e.started) / 1'000'000'000;
    failure f = too_late(here, late, waited, last(late) >= e.during.sequence);
    if (lost != nullptr) f.text += message() << "; its " << *lost;
    fail(std::move(f));
    reason().raise();
  }

  static int checked(int size, const simulated_options& o) {
    const auto refuse = [](const char* what) { throw usage_error(message() << "run_simulated: " << what); };
    const auto duration = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
    if (!duration(o.net.latency) || !duration(o.net.overhead) || !duration(o.net.gap) || !duration(o.net.byte) ||
        !duration(o.net.fold))
      refuse("a time of the network is negative or not finite");
    if (o.net.ports < 1 || o.net.ports > simulated_options::most_ports)
      refuse((message() << "the network has " << o.net.ports << " ports, must have at least 1 and at most "
                        << simulated_options::most_ports)
                 .str()
                 .c_str());
    if (!duration(o.jitter)) refuse("the jitter is negative or not finite");
    if (!(o.reorder.probability >= 0 && o.reorder.probability <= 1)) refuse("reorder.probability is not in [0, 1]");
    if (!duration(o.reorder.delay)) refuse("reorder.delay is negative or not finite");
    if (o.timeout < o.timeout.zero()) refuse("the timeout is negative");
    const auto is_rank = [&](const char* what, int rank) {
      if (rank >= 0 && rank < size) return;
      refuse((message() << what << " is rank " << rank << ", not in [0, " << size << ")").str().c_str());
    };
    for (const dropped_message& d : o.drop) {
      is_rank("drop.from", d.from);
      is_rank("drop.to", d.to);
    }
    for (const crashed_rank& c : o.crash) is_rank("crash.rank", c.rank);
    return size;
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
  std::atomic<bool> abort_asked_{false};
  failure abort_;
};

}  // namespace tutti::detail
