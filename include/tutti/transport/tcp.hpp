// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between hosts: over TCP connections, one for each pair of ranks that has something to say.

#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/group.hpp>
#include <tutti/transport/tcp/lane.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tutti {

/// A transport whose ranks are processes that reach each other by TCP, on one host or several. A message goes from the
/// sender's memory to its socket by one system call where there is room, and from the receiver's socket to where it is
/// wanted; large ones travel in pieces, and one is folded while the next is on its way. Blocking collectives allocate
/// only the first time that they need more than before. The group outlives it; it stays where it is once it has made a
/// lane.
class tcp {
 public:
  using group_type = detail::tcp_group;
  using lane_type = detail::tcp_lane<group_type>;
  static constexpr std::size_t pack_bytes = std::size_t{32} << 10;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = 4096;

  explicit tcp(group_type& group) : group_(&group) {}

  /// What the launcher says; include <tutti/run_tcp.hpp>. Throws `usage_error` naming the variable that is wrong or
  /// missing.
  static tcp_options from_environment();

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->abort(text); }
  /// As measured between processes of one host.
  cost_parameters costs() const { return {4e-6, 2e-6, 0.22e-9, 0.03e-9}; }

 private:
  group_type* group_;
  std::chrono::nanoseconds limit_{0};
};

static_assert(transport<tcp> && landing_lane<tcp::lane_type>);

}  // namespace tutti
