// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/tcp/connection.hpp>

#include <poll.h>
#include <sched.h>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// Who a lane is, which call it carries, and how it waits: it polls its sockets for a while, then it sleeps until one
/// of the rank's is ready or there is news.
template <class Group>
class tcp_waiting {
 public:
  using connection_type = std::remove_reference_t<decltype(std::declval<Group&>().connection(0))>;

  tcp_waiting(Group& group, int index, const std::chrono::nanoseconds& limit)
      : group_(&group),
        rank_(group.rank()),
        index_(tcp_lane_id::of(group.number(), static_cast<std::uint32_t>(index))),
        limit_(&limit),
        looks_(group.tuning().busy_poll.count() > 0 ? 32 : 1),
        gives_way_(group.tuning().crowded) {}

  void idle() {
    if (++idle_ % looks_ == 0) {
      idle_slowly();
    } else if (gives_way_) {
      sched_yield();
    }
  }

  void glance() {
    group_->check();
    if (++glances_ % 64 != 0) return;
    look_around(look_up());
  }

  /// From now on no sleep takes longer, for those who have something else to look at.
  void nap_at_most(std::chrono::nanoseconds limit) { longest_nap_ = limit; }

  void awake() {
    progressed();
    started_ = {};
    looked_at_ = -1;
    left_seen_ = -1;
  }

 protected:
  using clock = std::chrono::steady_clock;

  /// Something has come: the next is polled for anew.
  void progressed() {
    idle_ = 0;
    polling_since_ = {};
  }

  waiting_place here() const { return {rank_, awaited_, round_, call_}; }

  /// A look at that connection was in vain, and it is broken.
  [[gnu::noinline, gnu::cold]] void blame(int peer, connection_type& c) {
    TUTTI_FAULT_POINT("tcp_waiting.blame");
    group_->check();
    awaited_ = peer;
    if (c.corrupt()) group_->distrust(peer, c.last_header());
    if (c.tell()) group_->lost(peer, c.what());
    look_for_left();
  }

  Group* group_;
  int rank_;
  std::uint64_t index_;  // on each of its connections
  call call_;
  std::uint64_t fingerprint_ = 0;
  int round_ = -1;
  int awaited_ = 0;  // whom the last look in vain was for

 private:
  [[gnu::cold, gnu::noinline]] void idle_slowly() {
    const auto now = look_up();
    look_around(now);
    if (polling_since_ == clock::time_point{}) polling_since_ = now;
    if (now - polling_since_ < group_->tuning().busy_poll || (group_->tuning().crowded && idle_ <= yields)) {
      sched_yield();
      return;
    }
    sleep();
  }

  /// Throws if waiting has become pointless; returns what time it is.
  clock::time_point look_up() {
    group_->check();
    const auto now = clock::now();
    if (started_ == clock::time_point{}) started_ = now;
    waited_ = now - started_;
    if (*limit_ > std::chrono::nanoseconds::zero() && waited_ >= *limit_) expire();
    return now;
  }

  /// Others may be in another call, or gone, or what they send be lost: then what is waited for never comes.
  void look_around(clock::time_point now) {
    if (waited_ < patience) return;
    look_for_left();
    group_->look_for_stalls(now);
    if (looked_at_ == awaited_ || (looked_at_ >= 0 && now - looked_when_ < patience)) return;
    looked_at_ = awaited_;
    looked_when_ = now;
    TUTTI_FAULT_POINT("tcp_waiting.look_around");
    group_->look_around(here());
  }

  /// What a rank has sent before it left a communicator has come once that is known of all its bytes of that time; what
  /// it sent before it left the group, once its connection has ended. The news of its leaving may come before. A
  /// connection that does not end within the tuning's `grace` is given up.
  void look_for_left() {
    if (!call_.is_message() && group_->never_calls(awaited_, call_.sequence)) give_up();
    const bool all_came = group_->sends_no_more(awaited_);
    if (!all_came && !group_->has_left(awaited_)) return;
    const connection_type& c = group_->connection(awaited_);
    const auto now = clock::now();
    // It may have come after the last look.
    if (left_seen_ != awaited_) {
      left_seen_ = awaited_;
      left_since_ = now;
      return;
    }
    if (!all_came && c.established() && !c.broken() && now - left_since_ < group_->tuning().grace) return;
    give_up();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void give_up() {
    TUTTI_FAULT_POINT("tcp_waiting.left");
    group_->fail(left_early(here()));
    group_->raise();
  }

  /// Until a socket is ready, there is news, or it is time to look around.
  [[gnu::noinline]] void sleep() {
    TUTTI_FAULT_POINT("tcp_waiting.sleep");
    polled_.clear();
    polled_.push_back({group_->wake_descriptor(), POLLIN, 0});
    lines_.clear();
    lines_.push_back(-1);
    for (int line = 0; line < group_->lines(); ++line) {
      connection_type& c = group_->line(line);
      if (c.has_read() || (c.holds() && c.wants_to_read())) c.advance();
      if (c.has_arrived()) return;
      const bool reads = c.wants_to_read();
      const bool writes = c.wants_to_write();
      if (!reads && !writes) continue;
      if (reads && c.holds()) return;
      polled_.push_back({c.descriptor(), static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0});
      lines_.push_back(line);
    }
    if (::poll(polled_.begin(), static_cast<nfds_t>(polled_.size()), nap()) <= 0) return;
    TUTTI_FAULT_POINT("tcp_waiting.woken");
    if (polled_[0].revents != 0) group_->quiet();
    // What other lanes wait for; this one looks itself.
    const connection_type* const own = &group_->connection(awaited_);
    for (std::size_t i = 1; i < polled_.size(); ++i)
      if (connection_type& c = group_->line(lines_[i]); polled_[i].revents != 0 && &c != own) c.advance();
  }
  /// Milliseconds.
  int nap() const {
    auto longest =
        std::chrono::nanoseconds(looked_at_ != awaited_ || left_seen_ >= 0 ? patience : group_->tuning().longest_nap);
    if (longest_nap_ < longest) longest = longest_nap_;
    if (*limit_ > std::chrono::nanoseconds::zero() && *limit_ - waited_ < longest) longest = *limit_ - waited_;
    return static_cast<int>((longest.count() + 999'999) / 1'000'000);
  }

  [[noreturn, gnu::noinline, gnu::cold]] void expire() {
    TUTTI_FAULT_POINT("tcp_waiting.expire");
    group_->late(here(), std::chrono::duration_cast<std::chrono::milliseconds>(waited_).count());
  }

  // Where ranks share processors, whom one waits for is likely to be the next to run: to sleep would take longer.
  static constexpr unsigned yields = 8;
  static constexpr std::chrono::milliseconds patience{5};

  const std::chrono::nanoseconds* limit_;
  unsigned looks_;  // between two looks at the clock
  bool gives_way_;  // to others between looks: one of them may be the rank that it waits for
  unsigned idle_ = 0;
  unsigned glances_ = 0;
  int looked_at_ = -1;  // whom it has asked, while it waited, what it calls
  clock::time_point looked_when_{};
  int left_seen_ = -1;  // whom this rank has seen to be gone while it waited for it
  clock::time_point left_since_{};
  clock::time_point started_{};
  clock::time_point polling_since_{};
  std::chrono::nanoseconds waited_{0};
  std::chrono::nanoseconds longest_nap_ = std::chrono::nanoseconds::max();
  array_list<pollfd> polled_;
  array_list<int> lines_;
};

}  // namespace tutti::detail
