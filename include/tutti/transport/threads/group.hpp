// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/heap_memory.hpp>
#include <tutti/transport/shared_memory/lane.hpp>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace tutti::detail {

/// What the others may know of one rank.
struct alignas(128) rank_state {
  doorbell bell;
  alignas(64) std::atomic<bool> left{false};  // its function has returned or thrown
  call_log log;
};

/// What the ranks of one group of threads share.
class threads_group {
 public:
  using fence = asymmetric_fence;
  using memory = heap_memory;
  static constexpr bool shows_all = true;
  static constexpr bool waits_for_readers = true;
  static constexpr std::size_t shown_copy_bytes = 4096;
  static constexpr std::chrono::milliseconds longest_nap{100};

  explicit threads_group(int size)
      : size_(size), policy_(wait_policy::for_ranks(size)), states_(static_cast<std::size_t>(size)) {
    asymmetric_fence::available();
  }
  threads_group(const threads_group&) = delete;
  threads_group& operator=(const threads_group&) = delete;
  ~threads_group() {
    for (lane_table* const table : lanes_) {
      for (std::atomic<channel*>& c : table->channels) delete c.load(std::memory_order_relaxed);
      delete table;
    }
  }

  int size() const { return size_; }
  const wait_policy& policy() const { return policy_; }
  rank_state& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  static std::size_t piece_bytes(int) { return shown_copy_bytes; }
  static heap_memory make_memory(std::size_t bytes) { return heap_memory(bytes); }
  static std::uint64_t where(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }
  static_assert(sizeof(std::uint64_t) == sizeof(const std::byte*));
  static const std::byte* at(std::uint64_t where) { return std::bit_cast<const std::byte*>(where); }
  static bool shows(const std::byte*, std::size_t) { return true; }

  void write_call(int rank, const call& c) noexcept { state(rank).log.write(c); }
  call call_of(int rank, std::uint64_t number) { return state(rank).log.read(number); }
  std::uint64_t last_call(int rank) { return state(rank).log.last(); }
  bool has_left(int rank) { return state(rank).left.load(std::memory_order_acquire); }
  static void look_for_dead() {}

  /// The channel from one rank to another on a lane; made by whichever end asks first.
  [[gnu::noinline]] channel& connect(int lane, int from, int to) {
    std::atomic<channel*>& place =
        table(lane)
            .channels[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
    if (channel* there = place.load(std::memory_order_acquire)) return *there;
    auto* const made = allocating(sizeof(channel), "a channel between two ranks", [] { return new channel; });
    channel* first = nullptr;
    if (place.compare_exchange_strong(first, made, std::memory_order_acq_rel, std::memory_order_acquire)) return *made;
    delete made;
    return *first;
  }

  /// The boards of all ranks on a lane.
  board* boards(int lane) { return table(lane).boards.data(); }

  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Throws what the group failed of, if it failed.
  void check() {
    if (failed_.load(std::memory_order_acquire)) raise();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() {
    failure f;
    {
      const std::lock_guard lock(mutex_);
      f = failure_;
    }
    f.raise();
  }
  /// The group becomes unusable; the first reason stays. Wakes everyone.
  [[gnu::noinline, gnu::cold]] void fail(failure f) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_.load(std::memory_order_relaxed)) return;
      failure_ = std::move(f);
      failed_.store(true, std::memory_order_release);
    }
    wake_all();
  }
  /// The rank that failed, if the group failed of that; else -1.
  int culprit() {
    const std::lock_guard lock(mutex_);
    return failed() && failure_.kind == errc::peer_failed ? failure_.peer : -1;
  }
  /// A rank's function has returned or thrown.
  void leave(int rank) {
    state(rank).left.store(true, std::memory_order_release);
    wake_all();
  }

  /// The two ranks have not made the same calls.
  [[gnu::noinline, gnu::cold]] void disagree(int one, int other) {
    fail(disagreement(one, state(one).log, other, state(other).log));
  }

  /// After every rank has left: fails the group if they have not all made the same calls.
  [[gnu::noinline]] void check_same_calls() {
    for (int rank = 1; rank < size_; ++rank) {
      if (same_last_call(state(0).log, state(rank).log)) continue;
      disagree(0, rank);
      return;
    }
  }

 private:
  struct lane_table {
    explicit lane_table(std::size_t ranks) : channels(ranks * ranks), boards(ranks) {}
    owned_array<std::atomic<channel*>> channels;
    owned_array<board> boards;
  };

  lane_table& table(int lane) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(lane);
    lanes_.reserve(index + 1);
    while (lanes_.size() <= index)
      lanes_.push_back(allocating(sizeof(lane_table), "the channels of a lane",
                                  [&] { return new lane_table(static_cast<std::size_t>(size_)); }));
    return *lanes_[index];
  }
  void wake_all() {
    for (rank_state& s : states_) s.bell.wake();
  }

  int size_;
  wait_policy policy_;
  owned_array<rank_state> states_;
  alignas(64) std::atomic<bool> failed_{false};
  alignas(64) std::mutex mutex_;
  failure failure_;
  array_list<lane_table*> lanes_;
};

using threads_lane = shared_memory_lane<threads_group>;

}  // namespace tutti::detail
