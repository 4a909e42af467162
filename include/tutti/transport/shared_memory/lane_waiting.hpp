// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/shared_memory/channel.hpp>

#include <sched.h>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// Who a lane is, which call it carries, and how it waits: for whom, how long, and what ends the waiting.
template <class Group>
class lane_waiting {
 public:
  lane_waiting(Group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : group_(&group),
        rank_(rank),
        index_(index),
        bells_(static_cast<std::size_t>(group.size()), "the bells of the ranks"),
        limit_(&limit),
        policy_(group.policy()) {
    for (int peer = 0; peer < group.size(); ++peer) bells_[static_cast<std::size_t>(peer)] = &group.bell(peer);
  }

  void idle() {
    if (++idle_ <= policy_.spins) {
      cpu_pause();
    } else {
      idle_slowly();
    }
  }

  bool crowded() const { return policy_.crowded; }

  void glance() {
    group_->check();
    if (++glances_ % 64 != 0) return;
    look_up();
    look_around();
  }

  void awake() {
    if (armed_) bell(rank_).cancel();
    armed_ = false;
    idle_ = 0;
    started_ = {};
    left_seen_ = -1;
  }

 protected:
  /// What that rank sleeps on, whatever it waits for.
  TUTTI_ALWAYS_INLINE typename Group::bell_type& bell(int rank) { return *bells_[static_cast<std::size_t>(rank)]; }

  /// That rank has withdrawn what this lane carries of it: where it showed it there is something else by now.
  TUTTI_ALWAYS_INLINE bool has_withdrawn(int peer) {
    if (!group_->any_withdrawn()) [[likely]]
      return false;
    return has_withdrawn_here(peer);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(int peer, const message_slot& s, std::size_t bytes) {
    TUTTI_FAULT_POINT("waiting.refuse");
    if (s.fingerprint == fingerprint_) {
      group_->fail(unexpected_size({rank_, peer, round_, call_}, s.size(), bytes));
    } else if (call_.is_message()) {
      group_->misfit(call_);
    } else {
      group_->disagree(rank_, peer);
    }
    group_->raise();
  }

  Group* group_;
  int rank_;
  int index_;
  owned_array<typename Group::bell_type*> bells_;
  call call_;
  std::uint64_t fingerprint_ = 0;
  int round_ = -1;
  int awaited_ = 0;  // whom the last look in vain was for

 private:
  [[gnu::cold, gnu::noinline]] bool has_withdrawn_here(int peer) {
    if (!group_->boards(index_)[peer].withdrawn.load(std::memory_order_acquire)) return false;
    awaited_ = peer;
    return true;
  }

  [[gnu::cold, gnu::noinline]] void idle_slowly() {
    const auto nap = look_up();
    if (waited_ < policy_.patience) {
      idle_ = 0;
      return;
    }
    // Where others use the processors a yield may take a time slice.
    const bool tired = idle_ > policy_.spins + policy_.yields || waited_ > policy_.patience + longest_yielding;
    if (armed_) {
      TUTTI_FAULT_POINT("waiting.sleep");
      bell(rank_).sleep(seen_, nap);
      TUTTI_FAULT_POINT("waiting.woken");
      armed_ = false;
      idle_ = policy_.spins;
      return;
    }
    if (tired) {
      // Not before every short wait: to look at what the others write slows them down.
      if (waited_ > std::chrono::milliseconds(2)) look_around();
      seen_ = bell(rank_).prepare();
      armed_ = true;
      TUTTI_FAULT_POINT("waiting.prepared");
    } else {
      TUTTI_FAULT_POINT("waiting.yield");
      sched_yield();
    }
  }

  /// Throws if waiting has become pointless; returns how long a nap may be.
  std::chrono::nanoseconds look_up() {
    group_->check();
    const auto now = std::chrono::steady_clock::now();
    if (started_ == std::chrono::steady_clock::time_point{}) started_ = now;
    waited_ = now - started_;
    const auto longest = std::chrono::nanoseconds(waited_ < std::chrono::milliseconds(20) ? std::chrono::milliseconds(3)
                                                                                          : Group::longest_nap);
    if (*limit_ <= std::chrono::nanoseconds::zero()) return longest;
    const auto left = *limit_ - waited_;
    if (left <= std::chrono::nanoseconds::zero()) expire(now);
    return left < longest ? left : longest;
  }

  /// Others may be in another call, or gone: then what is waited for never comes. Called once after a look in vain.
  [[gnu::noinline, gnu::cold]] void look_around() {
    TUTTI_FAULT_POINT("waiting.look_around");
    group_->settle_departures(rank_);
    group_->look_for_dead();
    for (int peer = 0; !call_.is_message() && peer < group_->size(); ++peer) {
      if (peer == rank_) continue;
      const call theirs = group_->call_of(peer, call_.sequence);
      if (theirs.signature != nullptr && theirs.fingerprint() != fingerprint_) {
        group_->disagree(rank_, peer);
        group_->raise();
      }
    }
    if (!group_->has_left(awaited_)) return;
    // What it sent before it left is visible now: only another look in vain means that nothing will come.
    if (std::exchange(left_seen_, awaited_) != awaited_) return;
    group_->fail(left_early({rank_, awaited_, round_, call_}));
    group_->raise();
  }

  [[noreturn, gnu::noinline, gnu::cold]] void expire(std::chrono::steady_clock::time_point now) {
    TUTTI_FAULT_POINT("waiting.expire");
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - started_).count();
    const waiting_place here{rank_, awaited_, round_, call_};
    const auto last = [this](int rank) { return group_->last_call(rank); };
    const int late = last_to_come(here, group_->size(), last);
    group_->fail(too_late(here, late, waited, last(late) >= call_.sequence));
    group_->raise();
  }

  static constexpr std::chrono::milliseconds longest_yielding{2};

  const std::chrono::nanoseconds* limit_;
  wait_policy policy_;
  int idle_ = 0;
  unsigned glances_ = 0;
  bool armed_ = false;
  int left_seen_ = -1;  // whom this rank has seen to be gone while it waited for it
  std::uint32_t seen_ = 0;
  std::chrono::nanoseconds waited_{0};
  std::chrono::steady_clock::time_point started_{};
};

}  // namespace tutti::detail
