// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/departure.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/rank_list.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// What this rank called on one communicator, and why it failed, if it did. Any thread may ask.
class tcp_context_state {
 public:
  call_log log;
  message_log messages;

  tcp_context_state() { failure_.text.reserve(least_text); }

  TUTTI_ALWAYS_INLINE bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  failure why() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Waits until it has failed; whether it has within that time.
  bool await_failure(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return failed(); });
  }
  /// Waits until it has failed or ended well; whether it has failed.
  bool await_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failed() || ended_; });
    return failed();
  }

  /// The first reason stays; false if there was one, or it has ended well.
  [[gnu::cold]] bool fail(const failure& f) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (failed() || ended_) return false;
      failure_.kind = f.kind;
      failure_.peer = f.peer;
      try {
        failure_.text = f.text;
      } catch (...) {  // no memory for all of it
        failure_.text.assign(f.text.data(), failure_.text.capacity());
      }
      failed_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    return true;
  }
  void end() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!failed()) ended_ = true;
    }
    changed_.notify_all();
  }

 private:
  // There is room for so much of a text, whatever happens.
  static constexpr std::size_t least_text = 256;

  alignas(64) std::atomic<bool> failed_{false};
  alignas(64) std::mutex mutex_;
  std::condition_variable changed_;
  failure failure_;
  bool ended_ = false;
};

/// The same of a communicator of some of the ranks.
class tcp_part_state : public tcp_context_state {
 public:
  using member_list = std::vector<std::int32_t>;

  /// `members`: ranks of the whole group, in the order of the communicator.
  tcp_part_state(std::uint32_t number, member_list members)
      : number_(number),
        ends_(members.size(), "who has left a communicator"),
        members_(std::make_shared<const member_list>(std::move(members))),
        hash_(hash_of_ranks(*members_)) {}

  std::uint32_t number() const { return number_; }
  const std::shared_ptr<const member_list>& members() const { return members_; }
  /// Of the members. No rank is in two of one number, but it may have missed one, and be in another: this and the
  /// number tell which it is.
  std::uint64_t hash() const { return hash_; }

  /// The whole group has failed of that, and so has this.
  [[gnu::cold]] void fail_with_group(const failure& f) noexcept { fail(told_to_members(f, *members_)); }

  /// Which rank of the communicator that of the whole group is; -1: it is not in it.
  int rank_of(int rank_of_group) const noexcept {
    const auto at = std::find(members_->begin(), members_->end(), rank_of_group);
    return at == members_->end() ? -1 : static_cast<int>(at - members_->begin());
  }

  /// That rank of the whole group has left the communicator after that call, the greatest number if that is not known,
  /// and had given so many bytes to the connection to this one by then.
  void leave(int rank, std::uint64_t last, std::uint64_t given) noexcept {
    const int here = rank_of(rank);
    if (here < 0) return;
    ending& e = ends_[static_cast<std::size_t>(here)];
    e.first_not_called.store(last + 1, std::memory_order_release);
    e.given.store(given, std::memory_order_release);
  }
  /// That rank of the communicator has, and never makes that call.
  bool never_calls(int rank, std::uint64_t number) const noexcept {
    const std::uint64_t end = ends_[static_cast<std::size_t>(rank)].first_not_called.load(std::memory_order_acquire);
    return end != 0 && number >= end;
  }
  /// That rank of the communicator has, and of what it has given to the connection so much has been taken: all that it
  /// sent there.
  bool sends_no_more(int rank, std::uint64_t taken) const noexcept {
    const std::uint64_t given = ends_[static_cast<std::size_t>(rank)].given.load(std::memory_order_acquire);
    return given != 0 && taken >= given;
  }
  /// This rank has.
  void leave_here(bool by_exception) noexcept { departure_.leave(by_exception); }
  bool has_left_here() const noexcept { return departure_.over(); }

 private:
  struct ending {
    std::atomic<std::uint64_t> first_not_called{0};  // 0: none is known
    std::atomic<std::uint64_t> given{0};             // 0: it has not left
  };

  std::uint32_t number_;
  owned_array<ending> ends_;
  std::shared_ptr<const member_list> members_;
  std::uint64_t hash_;
  departure departure_;
};

}  // namespace tutti::detail
