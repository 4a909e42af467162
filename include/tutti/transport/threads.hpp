// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between threads of one process: in place where they are large, through a cache line where they are
// small.

#include <tutti/core/clock.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/threads/group.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// A transport whose ranks are threads of one process. Large messages are read where the sender has them, or written
/// where the receiver wants them; nothing is copied twice. Blocking collectives allocate only the first time that they
/// need more than before. The whole group outlives it; it stays where it is once it has made a lane.
class threads {
 public:
  using lane_type = detail::threads_lane;
  using group_type = detail::threads_group;
  static constexpr std::size_t pack_bytes = 4096;
  static constexpr std::size_t copy_bytes = detail::threads_group::shown_copy_bytes;
  static constexpr std::size_t exchange_copy_bytes = detail::message_slot::inline_bytes;

  threads(group_type& group, int rank) : group_(&group), rank_(rank) {}
  threads(threads&& other) noexcept
      : group_(other.group_),
        limit_(other.limit_),
        rank_(other.rank_),
        exceptions_(std::exchange(other.exceptions_, of_whole)) {}
  threads& operator=(threads&&) = delete;
  ~threads() {
    if (exceptions_ != of_whole) group_->depart(rank_, std::uncaught_exceptions() > exceptions_);
  }

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, rank_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->abort(rank_, text); }
  int next_group() const { return group_->next_group(rank_); }
  threads subgroup(int number, std::span<const int> members) {
    const auto [group, rank] = group_->subgroup(rank_, number, members);
    threads made(*group, rank);
    made.limit_ = limit_;
    made.exceptions_ = std::uncaught_exceptions();
    return made;
  }
  void miss_groups() noexcept { group_->miss_groups(rank_); }
  cost_parameters costs() const { return costs_where(group_->policy().crowded); }
  /// Measured between cores of one socket; where ranks take turns on a core (`crowded`), a round costs a turn of each.
  static cost_parameters costs_where(bool crowded) {
    if (crowded) return {4e-6, 30e-9, 0.05e-9, 0.0003e-9};
    return {600e-9, 30e-9, 0.05e-9, 0.0003e-9, 130e-9, 0.1e-9, 0.035e-9, 5};
  }

 private:
  static constexpr int of_whole = -1;

  group_type* group_;
  std::chrono::nanoseconds limit_{0};
  int rank_;
  int exceptions_ = of_whole;  // under way when this end of a subgroup was made
};

static_assert(splitting_transport<threads> && viewing_lane<threads::lane_type> && sharing_lane<threads::lane_type>);

}  // namespace tutti
