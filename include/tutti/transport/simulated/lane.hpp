// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/simulated/group.hpp>
#include <tutti/transport/simulated/part.hpp>

#include <cstddef>
#include <exception>
#include <string>

namespace tutti::detail {

/// A lane of a simulated run. Small messages are copied at once; of others the sender's memory is read when they
/// arrive, or when it has to be given back.
class simulated_lane {
 public:
  simulated_lane(simulated_part& part, int rank, int index, const std::chrono::nanoseconds& limit)
      : group_(part.group), end_(&part.end(rank, index)), limit_(&limit), rank_(part.whole_rank(rank)) {}

  void open(const call& c) { group_->open(*end_, c); }
  void begin_round() { ++end_->round; }
  bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    return group_->send(*end_, peer, data, bytes, copy);
  }
  bool try_recv(int peer, std::byte* data, std::size_t bytes) { return group_->receive(*end_, peer, data, bytes); }
  void folded(std::size_t bytes) { group_->fold(rank_, bytes); }

  /// The memory of what has been sent is free when its last byte has left.
  bool settled() {
    leaves_ = end_->all_left();
    if (leaves_ > group_->rank(rank_).clock) return false;
    leaves_ = 0;
    end_->take_bytes();
    return true;
  }

  void idle() {
    group_->check(*end_->part, end_->rank);
    if (leaves_ > group_->rank(rank_).clock) {
      group_->sleep_until(rank_, leaves_);
      group_->check(*end_->part, end_->rank);
    } else {
      group_->wait(*end_, limit());
    }
  }
  void glance() { group_->poll(*end_, limit()); }
  void awake() {
    end_->started = never;
    group_->rank(rank_).looks_at = nullptr;
  }

  void abandon(const std::string& reason) noexcept {
    awake();
    try {
      group_->fail(*end_->part,
                   {errc::peer_failed, end_->rank,
                    message() << "rank " << end_->rank << " failed in " << end_->during.describe() << ": " << reason});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
    withdraw();
  }

  void withdraw() noexcept {
    awake();
    end_->drop_bytes();
    end_->awaited = -1;
  }

 private:
  virtual_time limit() const { return *limit_ <= std::chrono::nanoseconds::zero() ? never : span_of(*limit_); }

  simulated_group* group_;
  lane_end* end_;
  const std::chrono::nanoseconds* limit_;
  virtual_time leaves_ = 0;  // when what the last look found unsettled will have left
  int rank_;                 // in the whole
};

}  // namespace tutti::detail
