// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move under a virtual clock: real data, and time and faults by a model.

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/simulated/group.hpp>
#include <tutti/transport/simulated/lane.hpp>
#include <tutti/transport/simulated/options.hpp>
#include <tutti/transport/simulated/part.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// A transport whose ranks are threads of one process of which one at a time runs: the one that is earliest in virtual
/// time. So a run is the same every time, whatever is computed and drawn. Messages take the time that `network` says;
/// what a rank computes takes none, but for folding and what it `spend`s, and a look in vain (`test()`) as much as a
/// message's overhead. A rank begins a call when no more than 4096 of its messages are under way.
///
/// Ranks may wait for each other in collectives only: one that spins or sleeps until another has done something waits
/// for ever. The whole group outlives it; it stays where it is once it has made a lane.
class simulated {
 public:
  using lane_type = detail::simulated_lane;
  using group_type = detail::simulated_group;
  // A step of a schedule is one message, as it is counted from the schedule.
  static constexpr std::size_t pack_bytes = SIZE_MAX;
  static constexpr std::size_t copy_bytes = 1024;
  static constexpr std::size_t exchange_copy_bytes = 1024;

  simulated(group_type& group, int rank) : part_(&group.whole()), limit_(group.timeout()), rank_(rank) {}
  simulated(simulated&& other) noexcept
      : part_(other.part_),
        limit_(other.limit_),
        rank_(other.rank_),
        exceptions_(std::exchange(other.exceptions_, of_whole)) {}
  simulated& operator=(simulated&&) = delete;
  ~simulated() {
    if (exceptions_ != of_whole) detail::depart(*part_, rank_, std::uncaught_exceptions() > exceptions_);
  }

  int rank() const { return rank_; }
  int size() const { return part_->size(); }
  lane_type make_lane(int index) { return {*part_, rank_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { part_->group->check(*part_, rank_); }
  /// Takes effect at what the ranks do next.
  void abort(std::string_view text) { part_->group->abort(*part_, rank_, text); }
  int next_group() const { return part_->group->next_group(*part_, rank_); }
  simulated subgroup(int number, std::span<const int> members) {
    detail::simulated_part& part = part_->group->subgroup(*part_, rank_, number, members);
    return {part, part.number_of(part_->whole_rank(rank_)), limit_};
  }
  void miss_groups() noexcept { part_->group->miss_groups(*part_, rank_); }
  cost_parameters costs() const { return part_->group->costs(); }

  /// This rank's virtual clock, in seconds.
  double now() const { return detail::seconds_of(part_->group->rank(part_->whole_rank(rank_)).clock); }
  /// This rank computes for so many seconds of virtual time. Throws `usage_error` if the time is negative, no number,
  /// or longer than 26 days.
  void spend(double seconds) {
    constexpr double longest = 26 * 24 * 3600.0;
    static_assert(static_cast<std::int64_t>(longest) * 1'000'000'000'000 < detail::longest_span);
    if (!(seconds >= 0 && seconds <= longest))
      throw usage_error(message() << "spend on rank " << rank() << " of " << size() << ": " << seconds
                                  << " seconds, must be at least 0 and at most " << longest);
    part_->group->spend(part_->whole_rank(rank_), detail::span_of(seconds));
    part_->group->catch_up(part_->whole_rank(rank_));
  }

 private:
  static constexpr int of_whole = -1;

  simulated(detail::simulated_part& part, int rank, std::chrono::nanoseconds limit)
      : part_(&part), limit_(limit), rank_(rank), exceptions_(std::uncaught_exceptions()) {}

  detail::simulated_part* part_;
  std::chrono::nanoseconds limit_;
  int rank_;
  int exceptions_ = of_whole;  // under way when this end of a subgroup was made
};

static_assert(splitting_transport<simulated> && timed_lane<simulated::lane_type>);
static_assert(!viewing_lane<simulated::lane_type> && !sharing_lane<simulated::lane_type>);

}  // namespace tutti
