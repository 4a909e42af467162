// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move under a virtual clock: real data, and time and faults by a model.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/simulated/lane.hpp>
#include <tutti/transport/simulated/options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

/// A transport whose ranks are threads of one process of which one at a time runs: the one that is earliest in virtual
/// time. So a run is the same every time, whatever is computed and drawn. Messages take the time that `network` says;
/// what a rank computes takes none, but for folding and what it `spend`s, and a look in vain (`test()`) as much as a
/// message's overhead. A rank begins a call when no more than 4096 of its messages are under way.
///
/// Ranks may wait for each other in collectives only: one that spins or sleeps until another has done something waits
/// for ever. The group outlives it; it stays where it is once it has made a lane.
class simulated {
 public:
  using lane_type = detail::simulated_lane;
  using group_type = detail::simulated_group;
  // A step of a schedule is one message, as it is counted from the schedule.
  static constexpr std::size_t pack_bytes = SIZE_MAX;
  static constexpr std::size_t copy_bytes = 1024;
  static constexpr std::size_t exchange_copy_bytes = 1024;

  simulated(group_type& group, int rank) : group_(&group), limit_(group.timeout()), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, rank_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(rank_); }
  /// Takes effect at what the ranks do next.
  void abort(std::string_view text) { group_->abort(rank_, text); }
  cost_parameters costs() const { return group_->costs(); }

  /// This rank's virtual clock, in seconds.
  double now() const { return detail::seconds_of(group_->rank(rank_).clock); }
  /// This rank computes for so many seconds of virtual time. Throws `usage_error` if the time is negative, no number,
  /// or longer than 26 days.
  void spend(double seconds) {
    constexpr double longest = 26 * 24 * 3600.0;
    static_assert(static_cast<std::int64_t>(longest) * 1'000'000'000'000 < detail::longest_span);
    if (!(seconds >= 0 && seconds <= longest))
      throw usage_error(message() << "spend on rank " << rank() << " of " << size() << ": " << seconds
                                  << " seconds, must be at least 0 and at most " << longest);
    group_->spend(rank_, detail::span_of(seconds));
    group_->catch_up(rank_);
  }

 private:
  group_type* group_;
  std::chrono::nanoseconds limit_;
  int rank_;
};

static_assert(transport<simulated> && timed_lane<simulated::lane_type>);
static_assert(!viewing_lane<simulated::lane_type> && !sharing_lane<simulated::lane_type>);

}  // namespace tutti
