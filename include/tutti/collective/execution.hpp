// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: how does a schedule move a caller's bytes over a transport?

#include <tutti/collective/open_round.hpp>
#include <tutti/core/arena.hpp>
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

  execution(S schedule, place at, Storage storage, Op op, arena& scratch, const policy& how)
      : schedule_(std::move(schedule)),
        at_(at),
        rounds_(schedule_.rounds(at)),
        current_(std::move(storage), std::move(op), scratch, how, S::overlapping) {}

  /// Does what can be done now; true when the collective has finished on this rank.
  template <lane L>
  bool advance(L& lane) {
    for (; round_ < rounds_; ++round_, open_ = false) {
      if (!open_) {
        current_.begin(lane, round_ + 1 == rounds_, sharing_lane<L> && shared_round(schedule_, at_, round_));
        schedule_.round(at_, round_, [&](auto step) { current_.add(lane, step); });
        current_.expect(lane);
        open_ = true;
      }
      if (!current_.advance(lane)) return false;
    }
    // While others still read what this rank sent: what is left to copy comes from the input, which stays as it is.
    if (!finished_) current_.finish();
    finished_ = true;
    return lane.settled();
  }

 private:
  S schedule_;
  place at_;
  int rounds_;
  int round_ = 0;
  bool open_ = false;
  bool finished_ = false;
  open_round<Storage, Op> current_;
};

}  // namespace tutti::detail
