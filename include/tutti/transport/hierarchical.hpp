// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between ranks of which some share a host: by one transport within a host, by another between hosts.

#include <tutti/core/clock.hpp>
#include <tutti/core/host_map.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/hierarchical/group.hpp>
#include <tutti/transport/hierarchical/lane.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// A transport made of two: `Outer` spans all ranks, `Inner` those of one host. A message to a rank of the same host
/// goes by `Inner`, any other by `Outer`; so every algorithm runs on it, and those of two levels (`two_level`) send
/// little between hosts. Ranks are numbered as those of `Outer`, which also decides why the group fails, and says so to
/// all; deadlines are told to it. The whole group outlives it; it stays where it is once it has made a lane.
///
/// `Inner` is `processes` or alike, `Outer` is `tcp` or alike: what their groups must offer is said at
/// `detail::hierarchical_group`.
template <class Inner, class Outer>
class hierarchical {
 public:
  using group_type = detail::hierarchical_group<Inner, Outer>;
  using lane_type = detail::hierarchical_lane<Inner, Outer>;
  static constexpr std::size_t pack_bytes = Outer::pack_bytes;
  static constexpr std::size_t copy_bytes = std::min(Inner::copy_bytes, Outer::copy_bytes);
  static constexpr std::size_t exchange_copy_bytes = std::min(Inner::exchange_copy_bytes, Outer::exchange_copy_bytes);

  explicit hierarchical(group_type& group) : group_(&group) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  /// Which ranks share a host.
  const host_map* hosts() const { return &group_->hosts(); }
  lane_type make_lane(int index) { return {*group_, index, limit_}; }
  /// That of this host, which its ranks read where it is.
  memory_owner& memory() requires allocating_transport<Inner> { return group_->inner().memory(); }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { group_->check(); }
  void abort(std::string_view text) { group_->outer().abort(text); }
  /// Within a host; the same on every rank, so not what is true of this host alone.
  cost_parameters costs() const { return hosts()->hosts() == 1 ? group_->inner().costs() : Inner::costs_where(false); }
  cost_parameters costs_between_hosts() const { return group_->outer().costs(); }

  /// The greater of those of both transports: a group has the same number in both.
  int next_group() const { return std::max(group_->inner().next_group(), group_->outer().next_group()); }
  /// A group of some of the ranks on all hosts, and one of those of this host: see `splitting_transport`.
  hierarchical subgroup(int number, std::span<const int> members) requires splitting_transport<Inner> &&
      splitting_transport<Outer> {
    return hierarchical(group_->subgroup(number, members), limit_);
  }
  /// What the ranks of this host know of the number that was agreed on may be too little: the outer one is asked then.
  void miss_groups() noexcept requires requires(Inner& inner) { inner.miss_groups(); }
  { group_->inner().miss_groups(); }

 private:
  hierarchical(std::unique_ptr<group_type> made, std::chrono::nanoseconds limit)
      : group_(made.get()), own_(std::move(made)), limit_(limit) {}

  group_type* group_;
  std::unique_ptr<group_type> own_;  // null: the whole group
  std::chrono::nanoseconds limit_{0};
};

}  // namespace tutti
