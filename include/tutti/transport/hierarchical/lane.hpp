// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/hierarchical/group.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace tutti::detail {

/// A lane within hosts and between them: one of each of the two transports, open for the same call. A rank that waits
/// looks at both, and sleeps on the side that it waits for: between hosts until something comes from there, but never
/// for long, since what comes from this host does not wake it; within its host as the inner transport does.
template <class Inner, class Outer>
class hierarchical_lane {
 public:
  using group_type = hierarchical_group<Inner, Outer>;
  using inner_lane = typename Inner::lane_type;
  using outer_lane = typename Outer::lane_type;

  hierarchical_lane(group_type& group, int index, const std::chrono::nanoseconds& limit)
      : group_(&group),
        inner_(group.inner().make_lane(index)),
        outer_(group.outer().make_lane(index)),
        limit_(&limit),
        awaited_(group.neighbour()),
        reader_inside_(awaited_),
        reader_outside_(awaited_),
        piece_bytes_(group.piece_bytes(inner_.piece_bytes(), outer_.piece_bytes())) {}

  /// Messages of more bytes, if they have more than one element, should be sent as several.
  std::size_t piece_bytes() const { return piece_bytes_; }
  static constexpr bool lands = landing_lane<inner_lane> && landing_lane<outer_lane>;

  TUTTI_ALWAYS_INLINE void open(const call& c) {
    call_ = c;
    round_ = -1;
    inside_ = outside_ = false;
    outer_.open(c);
    inside([&] { inner_.open(c); });
  }

  TUTTI_ALWAYS_INLINE void begin_round() {
    ++round_;
    inner_.begin_round();
    outer_.begin_round();
  }

  TUTTI_ALWAYS_INLINE bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    if (const int here = group_->index_here(peer); here >= 0) {
      reader_inside_ = peer;
      return inside([&] { return inner_.send(here, data, bytes, copy); }, here);
    }
    reader_outside_ = peer;
    return outer_.send(peer, data, bytes, copy);
  }

  TUTTI_ALWAYS_INLINE const std::byte* view(int peer, std::size_t bytes, std::byte* landing = nullptr) {
    const std::byte* seen = nullptr;
    if (const int here = group_->index_here(peer); here >= 0) {
      seen = inside([&] { return inner_.view(here, bytes, landing); }, here);
      if (seen == nullptr) inside_ = true;
    } else {
      seen = outer_.view(peer, bytes, landing);
      if (seen == nullptr) outside_ = true;
    }
    if (seen == nullptr) awaited_ = peer;
    return seen;
  }

  TUTTI_ALWAYS_INLINE void claim(int peer) {
    if (const int here = group_->index_here(peer); here >= 0)
      inside([&] { inner_.claim(here); }, here);
    else
      outer_.claim(peer);
  }

  TUTTI_ALWAYS_INLINE void release(int peer) {
    if (const int here = group_->index_here(peer); here >= 0)
      inside([&] { inner_.release(here); }, here);
    else
      outer_.release(peer);
  }

  TUTTI_ALWAYS_INLINE bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    if (const int here = group_->index_here(peer); here >= 0) {
      if (inside([&] { return inner_.try_recv(here, data, bytes); }, here)) return true;
      inside_ = true;
    } else {
      if (outer_.try_recv(peer, data, bytes)) return true;
      outside_ = true;
    }
    awaited_ = peer;
    return false;
  }

  TUTTI_ALWAYS_INLINE bool settled() {
    const bool within = inside([&] { return inner_.settled(); });
    const bool between = outer_.settled();
    if (within && between) [[likely]]
      return true;
    if (!between) {
      outside_ = true;
      awaited_ = reader_outside_;
    } else {
      inside_ = true;
      awaited_ = reader_inside_;
    }
    if (!within) inside_ = true;
    return false;
  }

  void idle() {
    // The clock is not looked at before every short wait.
    if (++idle_ % 8 == 0 || waited_ >= patience)
      look_up();
    else
      group_->check();
    // What there is no room for is sent wherever a rank waits.
    const bool between = std::exchange(outside_, false) || !outer_.settled();
    const bool within = std::exchange(inside_, false);
    if (!between) {
      idle_inside_ = true;
      inside([&] { inner_.idle(); });
      return;
    }
    if (std::exchange(idle_inside_, false)) inner_.awake();
    inside([&] {
      if (!inner_.settled() || within) inner_.glance();
    });
    outer_.nap_at_most(nap());
    outer_.idle();
  }

  void glance() {
    if (++glances_ % 64 == 0)
      look_up();
    else
      group_->check();
    const bool between = std::exchange(outside_, false);
    const bool within = std::exchange(inside_, false);
    if (between) outer_.glance();
    if (within) inside([&] { inner_.glance(); });
  }

  void awake() {
    inner_.awake();
    outer_.awake();
    started_ = {};
    waited_ = {};
    looked_at_ = left_seen_ = -1;
  }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    TUTTI_FAULT_POINT("hierarchical.abandon");
    // First to all, so that the ranks of this host find a verdict when they see their own group fail.
    outer_.abandon(reason);
    inner_.abandon(reason);
    started_ = {};
    inside_ = outside_ = false;
    looked_at_ = left_seen_ = -1;
  }

  [[gnu::noinline, gnu::cold]] void withdraw() noexcept {
    TUTTI_FAULT_POINT("hierarchical.withdraw");
    outer_.withdraw();
    inner_.withdraw();
    started_ = {};
    inside_ = outside_ = false;
    left_seen_ = -1;
  }

 private:
  using clock = std::chrono::steady_clock;
  using nanoseconds = std::chrono::nanoseconds;

  /// What the inner lane does. What it throws is judged by all; `peer` is with whom.
  template <class Act>
  TUTTI_ALWAYS_INLINE decltype(auto) inside(Act&& act, int peer = -1) {
    try {
      return act();
    } catch (const error& thrown) {
      group_->judge(thrown, here(), peer);
    }
  }

  waiting_place here() const { return {group_->rank(), awaited_, round_, call_}; }

  /// Throws if waiting has become pointless.
  [[gnu::noinline]] void look_up() {
    group_->check();
    const auto now = clock::now();
    if (started_ == clock::time_point{}) started_ = now;
    waited_ = now - started_;
    if (*limit_ > nanoseconds::zero() && waited_ >= *limit_) [[unlikely]] {
      TUTTI_FAULT_POINT("hierarchical.expire");
      group_->outer().group().late(here(), std::chrono::duration_cast<std::chrono::milliseconds>(waited_).count());
    }
    if (inside_ && waited_ >= patience) [[unlikely]]
      look_for_left();
  }

  /// What a rank of this host sent before it left is visible when it is known to have left: after one more look in vain
  /// nothing will come. Between hosts the outer lane knows.
  [[gnu::noinline, gnu::cold]] void look_for_left() {
    auto& judge = group_->outer().group();
    if (group_->index_here(awaited_) < 0 || awaited_ == group_->rank()) return;
    // Of a group of some ranks the outer one also knows who never comes to it: who waits asks there, once.
    if (judge.number() != 0 && std::exchange(looked_at_, awaited_) != awaited_) judge.look_around(here());
    const bool never_calls = !call_.is_message() && judge.never_calls(awaited_, call_.sequence);
    if (!judge.has_left(awaited_) && !never_calls && !judge.sends_no_more(awaited_)) return;
    if (std::exchange(left_seen_, awaited_) != awaited_) return;
    TUTTI_FAULT_POINT("hierarchical.left");
    judge.fail(left_early(here()));
    judge.raise();
  }

  /// A part of the time that the rank has waited anyway.
  nanoseconds nap() const {
    nanoseconds nap = waited_ / 4;
    if (nap < shortest_nap) nap = shortest_nap;
    if (nap > longest_nap) nap = longest_nap;
    if (*limit_ > nanoseconds::zero() && *limit_ - waited_ < nap) nap = *limit_ - waited_;
    return nap;
  }

  static constexpr nanoseconds patience = std::chrono::milliseconds(2);
  static constexpr nanoseconds shortest_nap = std::chrono::milliseconds(1);
  static constexpr nanoseconds longest_nap = std::chrono::milliseconds(20);

  group_type* group_;
  inner_lane inner_;
  outer_lane outer_;
  call call_;
  int round_ = -1;
  const nanoseconds* limit_;
  int awaited_;        // whom the last look in vain was for
  int reader_inside_;  // the last to whom this rank sent something
  int reader_outside_;
  int looked_at_ = -1;  // whom it has asked about, while it waited
  int left_seen_ = -1;  // whom this rank has seen to be gone while it waited for it
  std::size_t piece_bytes_;
  bool inside_ = false;       // a look within this host was in vain, since the last idle()
  bool outside_ = false;      // one between hosts was
  bool idle_inside_ = false;  // the inner lane waits, as far as it knows
  unsigned idle_ = 0;
  unsigned glances_ = 0;
  clock::time_point started_{};
  nanoseconds waited_{0};
};

}  // namespace tutti::detail
