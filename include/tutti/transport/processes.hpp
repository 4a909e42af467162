// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between processes of one host: through memory that they share.

#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/processes/group.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tutti {

/// A transport whose ranks are processes of one host. Small messages go through a cache line; what lies in memory that
/// is shared, such as `comm.allocate<T>(n)` gives, is read where it is; the rest is copied in pieces that stay in the
/// cache, while the piece before is read. Blocking collectives allocate only the first time that they need more than
/// before. The group outlives it; it stays where it is once it has made a lane.
class processes {
 public:
  using lane_type = detail::processes_lane;
  using group_type = detail::processes_group;
  static constexpr std::size_t pack_bytes = 4096;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = detail::message_slot::inline_bytes;

  processes(group_type& group, int rank) : group_(&group), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, rank_, index, limit_}; }
  memory_owner& memory() {
    group_->refuse_forked();  // its copy of the heap would give away what the rank itself has
    return group_->heap();
  }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->fail(detail::aborted(rank_, text)); }
  /// As between threads, but that a byte is copied twice.
  cost_parameters costs() const { return {group_->policy().crowded ? 4e-6 : 600e-9, 30e-9, 0.1e-9, 0.0003e-9}; }

 private:
  group_type* group_;
  std::chrono::nanoseconds limit_{0};
  int rank_;
};

static_assert(allocating_transport<processes> && viewing_lane<processes::lane_type> &&
              sharing_lane<processes::lane_type>);

}  // namespace tutti
