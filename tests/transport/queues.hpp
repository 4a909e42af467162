// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/communicator/communicator.hpp>
#include <tutti/communicator/launch.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/failures.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace test {

/// What the ranks of a `queues` transport share: one mutex, and a queue of messages for each pair of ranks and lane.
struct queues_group {
  struct message {
    std::uint64_t fingerprint;
    const std::byte* data;
    std::size_t bytes;
    std::vector<std::byte> copy;
  };
  using key = std::tuple<int, int, int>;  // lane, from, to

  queues_group(int ranks, bool lends_memory) : size(ranks), lends(lends_memory) {}

  [[noreturn]] void fail(std::unique_lock<std::mutex>& lock, tutti::failure reason) {
    if (!failed) failed = std::move(reason);
    changed.notify_all();
    const tutti::failure first = *failed;
    lock.unlock();
    first.raise();
  }

  const int size;
  /// Whether what is not to be copied is read where it lies, when it is received; else all is copied at once.
  const bool lends;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<key, std::deque<message>> messages;
  std::optional<tutti::failure> failed;
};

/// A lane as simple as can be: it neither shows messages where they lie nor shares rounds.
class queues_lane {
 public:
  queues_lane(queues_group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : group_(&group), rank_(rank), index_(index), limit_(&limit) {}

  void open(const tutti::call& c) {
    std::unique_lock lock(group_->mutex);
    if (group_->failed) group_->fail(lock, {});
    call_ = c;
  }
  void begin_round() {}

  bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    const std::unique_lock lock(group_->mutex);
    queues_group::message m{call_.fingerprint(), data, bytes, {}};
    const bool copied = copy || !group_->lends;
    if (copied) {
      m.copy.assign(data, data + bytes);
      m.data = nullptr;
    }
    group_->messages[{index_, rank_, peer}].push_back(std::move(m));
    group_->changed.notify_all();
    return copied;
  }

  bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    std::unique_lock lock(group_->mutex);
    auto& queue = group_->messages[{index_, peer, rank_}];
    if (queue.empty()) return false;
    const auto& m = queue.front();
    if (m.fingerprint != call_.fingerprint() || m.bytes != bytes)
      group_->fail(lock, {tutti::errc::mismatch, peer,
                          tutti::message() << "rank " << peer << " sent something else than rank " << rank_
                                           << " expects in " << call_.describe()});
    if (bytes != 0) std::memcpy(data, m.data == nullptr ? m.copy.data() : m.data, bytes);
    queue.pop_front();
    group_->changed.notify_all();
    return true;
  }

  bool settled() {
    const std::unique_lock lock(group_->mutex);
    for (int peer = 0; peer < group_->size; ++peer)
      for (const auto& m : group_->messages[{index_, rank_, peer}])
        if (m.data != nullptr) return false;
    return true;
  }

  void idle() {
    std::unique_lock lock(group_->mutex);
    check(lock);
    group_->changed.wait_for(lock, std::chrono::microseconds(200));
  }
  void glance() {
    std::unique_lock lock(group_->mutex);
    check(lock);
  }
  void awake() { started_.reset(); }

  void abandon(const std::string& reason) noexcept {
    const std::unique_lock lock(group_->mutex);
    if (!group_->failed)
      group_->failed = {tutti::errc::peer_failed, rank_,
                        tutti::message() << "rank " << rank_ << " failed in " << call_.describe() << ": " << reason};
    for (int peer = 0; peer < group_->size; ++peer) group_->messages[{index_, rank_, peer}].clear();
    group_->changed.notify_all();
  }
  void withdraw() noexcept {
    const std::unique_lock lock(group_->mutex);
    for (int peer = 0; peer < group_->size; ++peer) group_->messages[{index_, rank_, peer}].clear();
  }

 private:
  void check(std::unique_lock<std::mutex>& lock) {
    if (group_->failed) group_->fail(lock, {});
    if (*limit_ <= std::chrono::nanoseconds::zero()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!started_) started_ = now;
    if (now - *started_ > *limit_)
      group_->fail(lock, {tutti::errc::timed_out, -1, tutti::message() << "too late in " << call_.describe()});
  }

  queues_group* group_;
  int rank_;
  int index_;
  const std::chrono::nanoseconds* limit_;
  tutti::call call_;
  std::optional<std::chrono::steady_clock::time_point> started_;
};

/// A transport between threads over queues. Its thresholds are so low that short messages take all the ways.
class queues {
 public:
  using lane_type = queues_lane;
  static constexpr std::size_t pack_bytes = 64;
  static constexpr std::size_t copy_bytes = 16;
  static constexpr std::size_t exchange_copy_bytes = 8;

  queues(std::shared_ptr<queues_group> group, int rank)
      : group_(std::move(group)), limit_(std::make_unique<std::chrono::nanoseconds>(0)), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return group_->size; }
  queues_lane make_lane(int index) { return {*group_, rank_, index, *limit_}; }
  tutti::cost_parameters costs() const { return {1e-5, 1e-6, 1e-9, 1e-10}; }
  void timeout(std::chrono::nanoseconds limit) { *limit_ = limit; }
  void check() {
    std::unique_lock lock(group_->mutex);
    if (group_->failed) group_->fail(lock, {});
  }
  void abort(std::string_view text) {
    const std::unique_lock lock(group_->mutex);
    if (!group_->failed) group_->failed = tutti::detail::aborted(rank_, text);
    group_->changed.notify_all();
  }

 private:
  std::shared_ptr<queues_group> group_;
  std::unique_ptr<std::chrono::nanoseconds> limit_;
  int rank_;
};
static_assert(tutti::transport<queues> && !tutti::viewing_lane<queues_lane> && !tutti::sharing_lane<queues_lane>);

/// `tutti::run` on queues.
template <class F>
void run_on_queues(int ranks, bool lends, F&& f) {
  const auto group = std::make_shared<queues_group>(ranks, lends);
  std::vector<std::unique_ptr<tutti::communicator<queues>>> comms;
  for (int rank = 0; rank < ranks; ++rank)
    comms.push_back(std::make_unique<tutti::communicator<queues>>(queues(group, rank)));
  tutti::detail::run_threads(
      ranks, [&](int rank) { f(*comms[static_cast<std::size_t>(rank)]); },
      [&](int rank, const char* what) {
        const std::unique_lock lock(group->mutex);
        if (!group->failed)
          group->failed = {tutti::errc::peer_failed, rank, tutti::message() << "rank " << rank << " failed: " << what};
        group->changed.notify_all();
      },
      [&] {
        const std::unique_lock lock(group->mutex);
        return group->failed && group->failed->kind == tutti::errc::peer_failed ? group->failed->peer : -1;
      });
}

}  // namespace test
