// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between processes of one host: through memory that they share.

#include <tutti/core/clock.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/processes/group.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// A transport whose ranks are processes of one host. Small messages go through a cache line; what lies in memory that
/// is shared, such as `comm.allocate<T>(n)` gives, is read where it is; the rest is copied in pieces that stay in the
/// cache, while the piece before is read, or as takes less time (see detail::delivery_choice). Blocking collectives
/// allocate only the first time that they need more than before. The whole group outlives it; it stays where it is once
/// it has made a lane.
class processes {
 public:
  using lane_type = detail::processes_lane;
  using group_type = detail::processes_group;
  static constexpr std::size_t pack_bytes = 4096;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = detail::message_slot::inline_bytes;

  processes(group_type& group, int rank) : group_(&group), rank_(rank) {}
  processes(processes&& other) noexcept
      : group_(other.group_),
        limit_(other.limit_),
        rank_(other.rank_),
        exceptions_(std::exchange(other.exceptions_, of_whole)) {}
  processes& operator=(processes&&) = delete;
  ~processes() {
    if (exceptions_ != of_whole) group_->depart(std::uncaught_exceptions() > exceptions_);
  }

  /// What this is an end of, for transports that are made of this one.
  group_type& group() const { return *group_; }
  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, rank_, index, limit_}; }
  memory_owner& memory() {
    group_->refuse_forked();  // its copy of the heap would give away what the rank itself has
    return group_->heap();
  }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->abort(text); }
  int next_group() const { return group_->next_group(rank_); }
  processes subgroup(int number, std::span<const int> members) {
    group_type* const part = group_->subgroup(number, members);
    processes made(*part, part->rank());
    made.limit_ = limit_;
    made.exceptions_ = std::uncaught_exceptions();
    return made;
  }
  void miss_groups() noexcept { group_->miss_groups(); }
  cost_parameters costs() const { return costs_where(group_->crowded()); }
  /// As between threads, but that a byte is copied twice, and that it takes more whole vectors to double what it costs.
  /// `crowded`: there are fewer processors than ranks.
  static cost_parameters costs_where(bool crowded) {
    if (crowded) return {4e-6, 30e-9, 0.1e-9, 0.0003e-9};
    return {600e-9, 30e-9, 0.1e-9, 0.0003e-9, 130e-9, 0.1e-9, 0.07e-9, 10};
  }

 private:
  static constexpr int of_whole = -1;

  group_type* group_;
  std::chrono::nanoseconds limit_{0};
  int rank_;
  int exceptions_ = of_whole;  // under way when this end of a subgroup was made
};

static_assert(allocating_transport<processes> && splitting_transport<processes> && viewing_lane<processes::lane_type> &&
              sharing_lane<processes::lane_type>);

}  // namespace tutti
