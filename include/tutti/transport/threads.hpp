// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between threads of one process: in place where they are large, through a cache line where they are
// small.

#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/threads/group.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tutti {

/// A transport whose ranks are threads of one process. Large messages are read where the sender has them; nothing is
/// copied twice. Blocking collectives allocate only the first time that they need more than before. The group outlives
/// it; it stays where it is once it has made a lane.
class threads {
 public:
  using lane_type = detail::threads_lane;
  using group_type = detail::threads_group;
  static constexpr std::size_t pack_bytes = 4096;
  static constexpr std::size_t copy_bytes = detail::threads_group::shown_copy_bytes;
  static constexpr std::size_t exchange_copy_bytes = detail::message_slot::inline_bytes;

  threads(group_type& group, int rank) : group_(&group), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, rank_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->fail(detail::aborted(rank_, text)); }
  /// Measured between cores of one socket; where ranks take turns on a core, a round costs a turn of each.
  cost_parameters costs() const { return {group_->policy().crowded ? 4e-6 : 600e-9, 30e-9, 0.05e-9, 0.0003e-9}; }

 private:
  group_type* group_;
  std::chrono::nanoseconds limit_{0};
  int rank_;
};

static_assert(transport<threads> && viewing_lane<threads::lane_type> && sharing_lane<threads::lane_type>);

}  // namespace tutti
