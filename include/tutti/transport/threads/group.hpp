// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/departure.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/rank_list.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/heap_memory.hpp>
#include <tutti/transport/shared_memory/lane.hpp>
#include <tutti/transport/threads/family.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// What the others may know of one rank.
struct alignas(apart_bytes) rank_state {
  /// Its way through a group. In the whole it is there from the beginning, and leaves when its function has returned or
  /// thrown. It leaves a subgroup when its end goes; while an exception passes it is only about to.
  enum stages : unsigned char { absent, present, unwinding, left };

  std::atomic<stages> stage{absent};
  departure unwound;  // it has left while an exception passed
  call_log log;
  message_log messages;
};

/// What the ranks of one group of threads share: the whole, or a part of it, which is made by the first of its ranks
/// that comes and ends with the last that leaves.
class threads_group {
 public:
  using fence = asymmetric_fence;
  using memory = heap_memory;
  using bell_type = doorbell;
  static constexpr bool shows_all = true;
  static constexpr bool waits_for_readers = true;
  static constexpr std::size_t shown_copy_bytes = 4096;
  static constexpr std::chrono::milliseconds longest_nap{100};

  explicit threads_group(int size)
      : size_(size), policy_(wait_policy::for_ranks(size)), states_(static_cast<std::size_t>(size)) {
    asymmetric_fence::available();
    for (rank_state& s : states_) s.stage.store(rank_state::present, std::memory_order_relaxed);
    family_ = allocating(sizeof(threads_family), "what the ranks share", [&] { return new threads_family(size); });
    family_->whole = this;
  }
  threads_group(const threads_group&) = delete;
  threads_group& operator=(const threads_group&) = delete;
  ~threads_group() {
    for (lane_table* const table : lanes_) {
      if (table == nullptr) continue;
      for (std::atomic<channel*>& c : table->channels) delete c.load(std::memory_order_relaxed);
      delete table;
    }
    bool last = false;
    {
      const std::lock_guard lock(family_->mutex);
      if (is_whole()) family_->whole = nullptr;
      last = --family_->users == 0;
    }
    if (last) delete family_;
  }

  int size() const { return size_; }
  const wait_policy& policy() const { return policy_; }
  rank_state& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  doorbell& bell(int rank) { return family_->rank(whole_rank(rank)).bell; }

  static std::size_t piece_bytes(int) { return shown_copy_bytes; }
  static heap_memory make_memory(std::size_t bytes) { return heap_memory(bytes); }
  void keep(heap_memory piece) noexcept {
    const std::lock_guard lock(mutex_);
    kept_.keep(std::move(piece));
  }
  static std::uint64_t where(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }
  static_assert(sizeof(std::uint64_t) == sizeof(const std::byte*));
  static const std::byte* at(std::uint64_t where) { return std::bit_cast<const std::byte*>(where); }
  static bool shows(const std::byte*, std::size_t) { return true; }

  TUTTI_ALWAYS_INLINE void write_call(int rank, const call& c) noexcept { state(rank).log.write(c); }
  [[gnu::noinline]] void write_message(int rank, const call& c) noexcept { state(rank).messages.write(c); }
  call call_of(int rank, std::uint64_t number) { return state(rank).log.read(number); }
  std::uint64_t last_call(int rank) { return state(rank).log.last(); }
  bool has_left(int rank) {
    const int next = next_group(rank);
    const rank_state::stages stage = state(rank).stage.load(std::memory_order_acquire);
    if (stage == rank_state::left) return true;
    if (is_whole()) return false;
    return never_comes(stage, next) || state(rank).unwound.over() || family_->whole->has_left(whole_rank(rank));
  }
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

  /// The rank's memory is its own again, whatever it has shown on the lane.
  [[gnu::noinline, gnu::cold]] void withdraw(int rank, int lane) noexcept {
    boards(lane)[rank].withdrawn.store(true, std::memory_order_release);
    withdrawn_.store(true, std::memory_order_seq_cst);
  }
  bool any_withdrawn() const noexcept { return withdrawn_.load(std::memory_order_relaxed); }
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Throws what the group failed of, if it failed.
  void check() {
    if (failed_.load(std::memory_order_acquire)) raise();
  }
  [[noreturn, gnu::noinline, gnu::cold]] void raise() { why().raise(); }
  /// The group becomes unusable; the first reason stays. Wakes everyone.
  [[gnu::noinline, gnu::cold]] void fail(failure f) noexcept {
    if (!is_whole()) try {
        f.text += of_members({members_.data(), members_.size()});
      } catch (...) {  // no memory: it says less
      }
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

  /// The rank ends the group. From any thread.
  [[gnu::noinline, gnu::cold]] void abort(int rank, std::string_view text) {
    if (!is_whole()) return fail(aborted(rank, text));
    end_rank(rank, (message() << " aborted: " << text).str());
  }

  // ---- The whole

  /// A rank has come to its end: the whole fails, and so does every group that has the rank. `how` follows its number
  /// in their texts.
  [[gnu::noinline, gnu::cold]] void end_rank(int rank, std::string_view how) {
    // All at once: who hears of the one must not be found guilty of the others.
    const std::lock_guard lock(family_->mutex);
    family_->rank(rank).ended.assign(how.data(), how.size());
    fail(rank_ended(rank, how));
    for (threads_group* g = family_->groups; g != nullptr; g = g->next_) {
      const int number = g->number_of(rank);
      if (number >= 0 && g->state(number).stage.load(std::memory_order_relaxed) != rank_state::left)
        g->fail(rank_ended(number, how));
    }
  }
  /// A rank's function has returned or thrown.
  void leave(int rank) {
    settle_departures(rank);
    state(rank).stage.store(rank_state::left, std::memory_order_release);
    wake_all();
  }
  /// After every rank has left: fails the group if they have not all made the same calls on it and on the groups that
  /// still exist.
  [[gnu::noinline]] void check_same_calls() {
    compare_last_calls();
    const std::lock_guard lock(family_->mutex);
    for (threads_group* g = family_->groups; g != nullptr && !failed(); g = g->next_) {
      if (g->failed() || !g->all([](const rank_state& s) { return s.stage != rank_state::absent; })) continue;
      g->compare_last_calls();
      if (g->failed()) fail(g->why());
    }
  }

  // ---- Subgroups

  int next_group(int rank) { return family_->rank(whole_rank(rank)).next_group.load(std::memory_order_acquire); }
  /// The group of that number of these ranks, which that rank, one of them, enters as the second of the pair.
  std::pair<threads_group*, int> subgroup(int rank, int number, std::span<const int> members) {
    settle_departures(rank);
    try {
      const std::lock_guard lock(family_->mutex);
      threads_group* g = family_->groups;
      while (g != nullptr && (g->group_number_ != number || g->whole_rank(0) != whole_rank(members[0]))) g = g->next_;
      if (g == nullptr) {
        g = allocating(sizeof(threads_group), "a communicator",
                       [&] { return new threads_group(*this, number, members); });
        g->miss_ended();
      }
      const int place = g->number_of(whole_rank(rank));
      g->state(place).stage.store(rank_state::present, std::memory_order_release);
      family_->rank(whole_rank(rank)).next_group.store(number + 1, std::memory_order_release);
      return {g, place};
    } catch (...) {
      miss_groups_before(rank, number + 1);
      throw;
    }
  }
  /// The rank comes to no group that ranks of this one have agreed on so far.
  void miss_groups(int rank) noexcept {
    int next = 0;
    for (int other = 0; other < size_; ++other) next = std::max(next, next_group(other));
    miss_groups_before(rank, next == INT_MAX ? next : next + 1);
  }
  /// A rank's end of a subgroup goes.
  void depart(int rank, bool by_exception) noexcept {
    bool ended = false;
    {
      const std::lock_guard lock(family_->mutex);
      if (by_exception && is_running(rank)) {
        state(rank).stage.store(rank_state::unwinding, std::memory_order_release);
        state(rank).unwound.leave(true);
        family_->rank(whole_rank(rank)).unwinding = true;
      } else {
        ended = remove(rank);
      }
    }
    if (ended) delete this;
  }
  /// What a rank left while an exception passed it has left indeed: it is here, or its function has ended.
  void settle_departures(int rank) noexcept {
    const int me = whole_rank(rank);
    if (!family_->rank(me).unwinding) return;
    family_->rank(me).unwinding = false;
    threads_group* ended = nullptr;
    {
      const std::lock_guard lock(family_->mutex);
      for (threads_group* g = family_->groups; g != nullptr;) {
        threads_group* const next = g->next_;
        const int number = g->number_of(me);
        if (number >= 0 && g->state(number).stage.load(std::memory_order_relaxed) == rank_state::unwinding &&
            g->remove(number))
          g->next_ = std::exchange(ended, g);
        g = next;
      }
    }
    while (ended != nullptr) delete std::exchange(ended, ended->next_);
  }

  /// The two ranks have not made the same calls.
  [[gnu::noinline, gnu::cold]] void disagree(int one, int other) {
    fail(disagreement(one, state(one).log, other, state(other).log));
  }

  /// What a rank receives is not what the other has sent.
  [[gnu::noinline, gnu::cold]] void misfit(const call& received) {
    const int from = received.from();
    fail(detail::misfit(received, state(from).messages.find(from, received.to(), received.history)));
  }

 private:
  struct lane_table {
    explicit lane_table(std::size_t ranks) : channels(ranks * ranks), boards(ranks) {}
    owned_array<std::atomic<channel*>> channels;
    owned_array<board> boards;
  };

  /// A part of the whole that `parent` is, or is a part of. The family is locked.
  threads_group(threads_group& parent, int number, std::span<const int> members)
      : size_(static_cast<int>(members.size())),
        policy_(parent.policy_),
        states_(members.size()),
        group_number_(number),
        members_(members.size()),
        family_(parent.family_) {
    for (std::size_t i = 0; i < members.size(); ++i) members_[i] = parent.whole_rank(members[i]);
    ++family_->users;
    next_ = std::exchange(family_->groups, this);
    if (next_ != nullptr) next_->previous_ = this;
  }

  /// Ranks that have failed already do not come. The family is locked.
  void miss_ended() {
    for (int rank = 0; rank < size_ && !failed(); ++rank)
      if (const std::string& how = family_->rank(whole_rank(rank)).ended; !how.empty()) fail(rank_ended(rank, how));
  }

  bool is_whole() const { return group_number_ == 0; }
  int whole_rank(int rank) const { return is_whole() ? rank : members_[static_cast<std::size_t>(rank)]; }
  /// Which rank of this subgroup that of the whole is; -1: none.
  int number_of(int whole) const {
    for (int rank = 0; rank < size_; ++rank)
      if (whole_rank(rank) == whole) return rank;
    return -1;
  }
  /// Its function has not ended. The family is locked.
  bool is_running(int rank) const {
    threads_group* const whole = family_->whole;
    return whole != nullptr && whole->state(whole_rank(rank)).stage.load(std::memory_order_relaxed) != rank_state::left;
  }
  /// A rank that may enter later groups only has missed this one.
  bool never_comes(rank_state::stages stage, int next) const {
    return stage == rank_state::absent && next > group_number_;
  }
  template <class Condition>
  bool all(Condition&& condition) const {
    for (const rank_state& s : states_)
      if (!condition(s)) return false;
    return true;
  }
  /// The others get theirs of these groups, and find that the rank does not come.
  void miss_groups_before(int rank, int number) noexcept {
    const int me = whole_rank(rank);
    threads_group* over = nullptr;
    {
      const std::lock_guard lock(family_->mutex);
      family_->rank(me).next_group.store(number, std::memory_order_release);
      for (threads_group* g = family_->groups; g != nullptr;) {
        threads_group* const next = g->next_;
        if (g->number_of(me) >= 0 && g->unlist_if_over()) g->next_ = std::exchange(over, g);
        g = next;
      }
    }
    while (over != nullptr) delete std::exchange(over, over->next_);
  }
  /// The rank has left this subgroup; whether all have, and it is out of the family's list. The family is locked.
  bool remove(int rank) {
    state(rank).stage.store(rank_state::left, std::memory_order_release);
    return unlist_if_over();
  }
  /// Whether nobody is in this subgroup or comes to it any more, and it is out of the family's list; else wakes all.
  bool unlist_if_over() {
    for (int other = 0; other < size_; ++other) {
      const int next = next_group(other);
      const rank_state::stages stage = state(other).stage.load(std::memory_order_acquire);
      if (stage == rank_state::left || never_comes(stage, next)) continue;
      wake_all();
      return false;
    }
    (previous_ == nullptr ? family_->groups : previous_->next_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    return true;
  }

  failure why() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void compare_last_calls() {
    for (int rank = 1; rank < size_; ++rank) {
      if (same_last_call(state(0).log, state(rank).log)) continue;
      disagree(0, rank);
      return;
    }
  }

  lane_table& table(int lane) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(lane);
    lanes_.reserve(index + 1);
    while (lanes_.size() <= index) lanes_.push_back(nullptr);
    if (lanes_[index] == nullptr)
      lanes_[index] = allocating(sizeof(lane_table), "the channels of a lane",
                                 [&] { return new lane_table(static_cast<std::size_t>(size_)); });
    return *lanes_[index];
  }
  void wake_all() {
    for (int rank = 0; rank < size_; ++rank) bell(rank).wake();
  }

  int size_;
  wait_policy policy_;
  owned_array<rank_state> states_;
  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<bool> withdrawn_{false};
  alignas(64) std::mutex mutex_;
  failure failure_;
  array_list<lane_table*> lanes_;
  kept_memory kept_;
  // Of a subgroup.
  int group_number_ = 0;
  owned_array<int> members_;  // as ranks of the whole
  threads_group* next_ = nullptr;
  threads_group* previous_ = nullptr;
  threads_family* family_ = nullptr;
};

using threads_lane = shared_memory_lane<threads_group>;

}  // namespace tutti::detail
