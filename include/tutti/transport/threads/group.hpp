// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/threads/channel.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace tutti::detail {

/// The last calls of one rank, for others to read when something does not fit: a seqlock for each entry, made of
/// release stores and acquire loads alone.
class call_log {
 public:
  static constexpr std::size_t length = 16;

  TUTTI_ALWAYS_INLINE void write(const call& c) noexcept {
    entry& e = entries_[c.sequence % length];
    e.sequence.store(0, std::memory_order_relaxed);
    e.signature.store(c.signature, std::memory_order_release);
    e.history.store(c.history, std::memory_order_release);
    e.count.store(c.count, std::memory_order_release);
    e.root.store(c.root, std::memory_order_release);
    e.file.store(c.where.file, std::memory_order_release);
    e.line.store(c.where.line, std::memory_order_release);
    e.sequence.store(c.sequence, std::memory_order_release);
  }

  /// The call with that number, if it is among the last ones; else one without a signature.
  call read(std::uint64_t sequence) const noexcept {
    const entry& e = entries_[sequence % length];
    if (e.sequence.load(std::memory_order_acquire) != sequence) return {};
    call c;
    c.signature = e.signature.load(std::memory_order_acquire);
    c.history = e.history.load(std::memory_order_acquire);
    c.count = e.count.load(std::memory_order_acquire);
    c.root = e.root.load(std::memory_order_acquire);
    c.where.file = e.file.load(std::memory_order_acquire);
    c.where.line = e.line.load(std::memory_order_acquire);
    c.sequence = sequence;
    if (e.sequence.load(std::memory_order_relaxed) != sequence) return {};
    return c;
  }

  /// The number of the last call, 0 if there was none.
  std::uint64_t last() const noexcept {
    std::uint64_t greatest = 0;
    for (const entry& e : entries_) {
      const std::uint64_t sequence = e.sequence.load(std::memory_order_acquire);
      if (sequence > greatest) greatest = sequence;
    }
    return greatest;
  }

 private:
  struct alignas(64) entry {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<const call_signature*> signature{nullptr};
    std::atomic<std::uint64_t> history{0};
    std::atomic<std::size_t> count{0};
    std::atomic<int> root{-1};
    std::atomic<const char*> file{""};
    std::atomic<unsigned> line{0};
  };
  entry entries_[length];
};

enum class presence : int { running, left, failed };

/// What the others may know of one rank.
struct alignas(128) rank_state {
  doorbell bell;
  alignas(64) std::atomic<presence> status{presence::running};
  call_log log;
};

/// What the ranks of one group of threads share.
class threads_group {
 public:
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

  /// The channel from one rank to another on a lane; made by whichever end asks first.
  [[gnu::noinline]] channel& connect(int lane, int from, int to) {
    std::atomic<channel*>& place =
        table(lane)
            .channels[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
    if (channel* there = place.load(std::memory_order_acquire)) return *there;
    auto* const made = new channel;
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
  /// A rank's function has returned.
  void leave(int rank, presence how) {
    state(rank).status.store(how, std::memory_order_release);
    wake_all();
  }

  /// The first call that the two ranks have in their logs and that is not the same; where one has called more, what the
  /// other never called.
  [[gnu::noinline, gnu::cold]] void disagree(int one, int other) {
    const int first = one < other ? one : other;
    const int second = one < other ? other : one;
    const call_log& firsts = state(first).log;
    const call_log& seconds = state(second).log;
    const std::uint64_t last = firsts.last() > seconds.last() ? firsts.last() : seconds.last();
    for (std::uint64_t number = last > call_log::length ? last - call_log::length + 1 : 1; number <= last; ++number) {
      const call a = firsts.read(number);
      const call b = seconds.read(number);
      if (alike(a, b)) continue;
      // Named in rank order, so that the text does not depend on who noticed.
      fail({errc::mismatch, first,
            message() << "rank " << first << " called " << words(a) << "; rank " << second << " called " << words(b)});
      return;
    }
    fail({errc::mismatch, first,
          message() << "rank " << first << " and rank " << second << " called different things some time ago"});
  }

  /// After every rank has left: fails the group if they have not all made the same calls.
  [[gnu::noinline]] void check_same_calls() {
    for (int rank = 1; rank < size_; ++rank) {
      const call_log& zero = state(0).log;
      const call_log& log = state(rank).log;
      if (!alike(zero.read(zero.last()), log.read(log.last()))) {
        disagree(0, rank);
        return;
      }
    }
  }

 private:
  struct lane_table {
    explicit lane_table(std::size_t ranks) : channels(ranks * ranks), boards(ranks) {}
    owned_array<std::atomic<channel*>> channels;
    owned_array<board> boards;
  };

  /// Neither was called, or both and they fit together.
  static bool alike(const call& a, const call& b) {
    if (a.signature == nullptr || b.signature == nullptr) return a.signature == b.signature;
    return a.fingerprint() == b.fingerprint();
  }
  static std::string words(const call& c) {
    return c.signature == nullptr ? std::string("nothing that fits") : c.describe();
  }

  lane_table& table(int lane) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(lane);
    lanes_.reserve(index + 1);
    while (lanes_.size() <= index) lanes_.push_back(new lane_table(static_cast<std::size_t>(size_)));
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

}  // namespace tutti::detail
