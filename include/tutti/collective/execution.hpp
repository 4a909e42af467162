// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: how does a schedule move a caller's bytes over a transport?

#include <tutti/collective/open_round.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/schedule.hpp>

#include <utility>

namespace tutti::detail {

/// A collective under way on one rank. Blocking and nonblocking collectives are both this; the state is the number of
/// the round and the open round.
template <schedule S, class Storage, class Op>
class execution {
 public:
  using value_type = typename Storage::value_type;

  TUTTI_ALWAYS_INLINE execution(S schedule, place at, round_memory<Storage, Op>& memory)
      : schedule_(std::move(schedule)), at_(at), rounds_(schedule_.rounds(at)), current_(memory) {}

  /// Does what can be done; true when the collective has finished on this rank. `wait()` is called after each look in
  /// vain: it returns true to have another, or false if one may not wait.
  template <lane L, class Wait>
  TUTTI_ALWAYS_INLINE bool advance(L& lane, Wait&& wait) {
    for (; round_ < rounds_; ++round_, open_ = false) {
      if (!open_) {
        lane.begin_round();
        current_.begin(round_ + 1 == rounds_, may_share<L>() && shared_round(schedule_, at_, round_));
        schedule_.round(at_, round_, [this](const auto& step) TUTTI_ALWAYS_INLINE { current_.add(step); });
        open_ = true;
      }
      if (!current_.advance(lane, wait)) return false;
    }
    // While others still read what this rank sent: what is left to copy comes from the input, which stays as it is.
    if (!finished_) current_.finish();
    finished_ = true;
    while (!lane.settled())
      if (!wait()) return false;
    return true;
  }

 private:
  /// Decided alike on every rank.
  template <class L>
  TUTTI_ALWAYS_INLINE bool may_share() const {
    if constexpr (sharing_lane<L>) {
      return current_.bytes() <= L::shown_bytes;
    } else {
      return false;
    }
  }

  S schedule_;
  place at_;
  int rounds_;
  int round_ = 0;
  bool open_ = false;
  bool finished_ = false;
  open_round<Storage, Op> current_;
};

}  // namespace tutti::detail
