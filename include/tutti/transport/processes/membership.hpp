// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/transport/processes/family.hpp>
#include <tutti/transport/processes/segment.hpp>
#include <tutti/transport/processes/shared_state.hpp>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace tutti::detail {

/// Who is in a group of processes, what these tell each other, and how they come and go. A subgroup's memory in the
/// segment is made by the first that comes, and goes back to the pool with the last that leaves.
class processes_membership {
 public:
  using bell_type = basic_doorbell<sharers::processes>;

  processes_membership(const processes_membership&) = delete;
  processes_membership& operator=(const processes_membership&) = delete;

  int size() const { return size_; }
  int rank() const { return rank_; }
  shared_rank& state(int rank) { return segment_.object<shared_rank>(head_->states)[rank]; }
  bell_type& bell(int rank) { return in_whole(rank).bell; }
  /// It will do no more in this group.
  bool has_left(int rank) {
    const int next = next_group(rank);
    const rank_stage stage = state(rank).stage.load(std::memory_order_acquire);
    if (stage == rank_stage::left) return true;
    return !is_whole() && (never_comes(stage, next) || state(rank).unwound.over() ||
                           in_whole(rank).stage.load(std::memory_order_acquire) == rank_stage::left);
  }
  bool has_attached(int rank) { return state(rank).stage.load(std::memory_order_acquire) != rank_stage::absent; }
  /// Some rank has withdrawn what it showed on some lane.
  bool any_withdrawn() const noexcept { return head_->withdrawn.load(std::memory_order_relaxed); }
  /// The smallest number above those of all groups that the rank was ever in.
  int next_group(int rank) { return in_whole(rank).next_group.load(std::memory_order_acquire); }
  /// This rank comes to no group that ranks of this one have agreed on so far.
  void miss_groups() noexcept {
    if (!family_->guard.armed()) return;
    int next = 0;
    for (int rank = 0; rank < size_; ++rank) next = std::max(next, next_group(rank));
    miss_groups_before(next == INT_MAX ? next : next + 1);
  }

 protected:
  /// The whole.
  explicit processes_membership(processes_family& family)
      : family_(&family), segment_(family.memory), memory_(family.memory), head_(family.head), size_(head_->size) {}
  /// A part of the whole that `parent` is, or is a part of; the parent's rank enters it.
  processes_membership(processes_membership& parent, int number, std::span<const int> members)
      : family_(parent.family_),
        segment_(parent.segment_),
        memory_(parent.segment_, parent.family_->head->pool),
        size_(static_cast<int>(members.size())),
        group_number_(number),
        members_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      members_[i] = parent.whole_rank(members[i]);
      if (members[i] == parent.rank_) rank_ = static_cast<int>(i);
    }
    enter(parent.state(members[0]).subgroup);
    const std::lock_guard lock(family_->mutex);
    ++family_->users;
  }
  ~processes_membership() {
    bool last = false;
    {
      const std::lock_guard lock(family_->mutex);
      last = --family_->users == 0;
    }
    if (last) delete family_;
  }

  bool is_whole() const { return group_number_ == 0; }
  int whole_rank(int rank) const { return is_whole() ? rank : members_[static_cast<std::size_t>(rank)]; }
  /// Which rank of this group that of the whole is; -1: none.
  int number_of(int whole) const {
    for (int rank = 0; rank < size_; ++rank)
      if (whole_rank(rank) == whole) return rank;
    return -1;
  }
  /// What the whole has of that rank.
  shared_rank& in_whole(int rank) const { return family_->ranks[whole_rank(rank)]; }
  bool is_dead(int rank) const { return family_->is_dead(whole_rank(rank)); }
  /// The members of a subgroup as ranks of the whole.
  std::span<const int> members() const { return {members_.begin(), members_.size()}; }

  void wake_all() noexcept {
    for (int rank = 0; rank < size_; ++rank) {
      TUTTI_FAULT_POINT("group.wake");
      bell(rank).wake();
    }
  }

  /// The others get theirs of these groups, and find that this rank does not come.
  void miss_groups_before(int number) noexcept {
    in_whole(rank_).next_group.store(number, std::memory_order_release);
    wake_all();
  }

  /// This rank has left a subgroup, and uses nothing of it any more. Those who cannot leave by themselves count too.
  void end_membership() noexcept {
    int out = 1;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const int next = next_group(rank);
      rank_stage stage = state(rank).stage.load(std::memory_order_acquire);
      const bool died = is_dead(rank) && stage != rank_stage::left && stage != rank_stage::gone;
      if (died || never_comes(stage, next))
        out += state(rank).stage.compare_exchange_strong(stage, died ? rank_stage::gone : rank_stage::left) ? 1 : 0;
    }
    TUTTI_FAULT_POINT("group.depart");
    state(rank_).stage.store(rank_stage::left, std::memory_order_release);
    wake_all();
    TUTTI_FAULT_POINT("group.departed");
    if (head_->remaining.fetch_sub(out, std::memory_order_acq_rel) == out) memory_.give_back();
  }

  processes_family* family_;
  segment& segment_;
  group_memory memory_;
  shared_head* head_ = nullptr;
  int size_;
  int rank_ = -1;

 private:
  /// A rank that may enter later groups only has missed this one.
  bool never_comes(rank_stage stage, int next) const { return stage == rank_stage::absent && next > group_number_; }

  /// Finds this subgroup in the place of the last one that has the same parent and the same first rank, or makes it.
  /// Where it is made, every rank of the parent has come out of the last one's `subgroup()`.
  void enter(std::atomic<std::uint64_t>& shown) {
    constexpr int place_bits = 32;
    constexpr std::uint64_t unit = piece_pool::alignment;
    const std::uint64_t number = static_cast<std::uint64_t>(group_number_) << place_bits;
    std::uint64_t seen = shown.load(std::memory_order_acquire);
    if (seen >> place_bits != number >> place_bits) {
      const std::uint64_t mine = number | memory_.make_group(size_) / unit;
      TUTTI_FAULT_POINT("group.show");
      if (shown.compare_exchange_strong(seen, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
        TUTTI_FAULT_POINT("group.shown");
        seen = mine;
      } else {
        memory_.give_back();
      }
    }
    head_ = segment_.object<shared_head>((seen & ((std::uint64_t{1} << place_bits) - 1)) * unit);
    memory_ = group_memory(segment_, family_->head->pool, head_);
    state(rank_).stage.store(rank_stage::attached, std::memory_order_release);
    TUTTI_FAULT_POINT("group.entered");
  }

  int group_number_ = 0;
  owned_array<int> members_;
};

}  // namespace tutti::detail
