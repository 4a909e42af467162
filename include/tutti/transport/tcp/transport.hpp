// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/group.hpp>
#include <tutti/transport/tcp/lane.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>

namespace tutti::detail {

/// What the transports over TCP have in common; `Security` says whether connections are encrypted, and who may have
/// one.
template <class Security>
class tcp_transport {
 public:
  using group_type = basic_tcp_group<Security>;
  using lane_type = tcp_lane<group_type>;
  static constexpr std::size_t pack_bytes = std::size_t{32} << 10;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = 4096;

  explicit tcp_transport(group_type& group) : group_(&group) {}

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

}  // namespace tutti::detail
