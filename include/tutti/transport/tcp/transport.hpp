// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/context.hpp>
#include <tutti/transport/tcp/group.hpp>
#include <tutti/transport/tcp/lane.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// What the transports over TCP have in common; `Security` says whether connections are encrypted, and who may have
/// one. Communicators of some of the ranks use the connections that there are, and cost no thread and no message.
template <class Security>
class tcp_transport {
 public:
  using group_type = basic_tcp_group<Security>;
  using context_type = basic_tcp_context<Security>;
  using lane_type = tcp_lane<context_type>;
  static constexpr std::size_t pack_bytes = std::size_t{32} << 10;
  static constexpr std::size_t copy_bytes = 4096;
  static constexpr std::size_t exchange_copy_bytes = 4096;

  explicit tcp_transport(group_type& group) : context_(&group.whole()) {}

  /// What this is an end of, for transports that are made of this one.
  context_type& group() const { return *context_; }
  int rank() const { return context_->rank(); }
  int size() const { return context_->size(); }
  lane_type make_lane(int index) { return {*context_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  void check() { context_->check(); }
  void abort(std::string_view text) { context_->abort(text); }
  /// As measured between processes of one host.
  cost_parameters costs() const { return {4e-6, 2e-6, 0.22e-9, 0.03e-9}; }

  /// The smallest number above those of all groups that this rank was ever in.
  int next_group() const { return context_->next_group(); }

 protected:
  /// `subgroup` of `splitting_transport`.
  tcp_transport part(int number, std::span<const int> members) {
    return tcp_transport(context_->subgroup(number, members), limit_);
  }

 private:
  tcp_transport(std::shared_ptr<context_type> made, std::chrono::nanoseconds limit)
      : context_(made.get()), own_(std::move(made)), limit_(limit) {}

  context_type* context_;
  std::shared_ptr<context_type> own_;  // null: the whole group, which outlives this
  std::chrono::nanoseconds limit_{0};
};

}  // namespace tutti::detail
