// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/shared_memory/lane_boards.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::detail {

/// A lane between ranks that share memory: messages to one peer through channels, shared rounds on boards. `Group` is
/// what they share:
///
/// - `memory`, `make_memory(bytes)`: memory that every rank can read, owned by what it returns; `keep(memory)`: it is
///   not used any more, but others may still read it;
/// - `where(data)`, `at(where)`: a place in such memory as it is told to others, not 0; and where it lies here;
/// - `shows(data, bytes)`: whether the others can read these bytes where they are; `shows_all`: they always can;
/// - `connect(lane, from, to)`, `boards(lane)`: the channels and boards of a lane; `bell_type`, `bell(rank)`: what a
///   rank sleeps on, in whichever group it waits; `has_left(rank)`; `settle_departures(rank)`: of groups that the rank
///   left while an exception passed it has left indeed, since it goes on;
/// - `fail(failure)`, `failed()`, `check()`, `raise()`, `disagree(one, other)`, `misfit(call)`: why the group became
///   unusable;
/// - `write_call(rank, call)`, `write_message(rank, call)`, `call_of(rank, number)`, `last_call(rank)`: what the ranks
///   called;
/// - `withdraw(rank, lane)`: what the rank has shown on the lane is not to be read any more, unless it is a copy: notes
///   that on its board, and that there is such a note at all, which is `any_withdrawn()`;
/// - `look_for_dead()`: fails the group if a rank has gone without a word; `longest_nap`: between looks;
/// - `waits_for_readers`: a failing rank waits until nobody reads its memory; else who has read it looks afterwards
///   whether the group has failed meanwhile, by `check_after_reading()`;
/// - where not everything is shown: `can_read(rank)`, `read(rank, to, from, bytes)`: messages may be read from the
///   memory of the other process, if that can be; where it cannot `read` returns the number of the error, of which
///   `cannot_read(rank, error)` fails the group;
/// - `piece_bytes(lane)`, `shown_copy_bytes`: the size of copies in channels and on boards.
template <class Group>
class shared_memory_lane : public lane_boards<Group> {
  using boards = lane_boards<Group>;
  using boards::call_, boards::fingerprint_, boards::group_, boards::index_, boards::rank_, boards::round_;

 public:
  using boards::boards;

  /// Messages larger than this, if they have more than one element, should be sent as several.
  std::size_t piece_bytes() const requires(!Group::shows_all) { return group_->piece_bytes(index_); }
  /// Whether messages may be read from the memory of other processes.
  static constexpr bool lands = !Group::shows_all;
  /// Ranks may write what others show: it is always their memory itself, and they wait for who is in it.
  static constexpr bool opens = Group::shows_all && Group::waits_for_readers;
  /// Shared rounds of vectors up to this size.
  static constexpr std::size_t shown_bytes = Group::shows_all ? SIZE_MAX : Group::shown_copy_bytes;

  TUTTI_ALWAYS_INLINE void open(const call& c) {
    group_->check();
    call_ = c;
    fingerprint_ = c.fingerprint();
    round_ = -1;
    this->begin_channels_call();
    TUTTI_FAULT_POINT("lane.open");
    if (c.is_message()) [[unlikely]] {
      group_->write_message(rank_, call_);  // not what the compiler would then put into memory
    } else {
      group_->write_call(rank_, c);
    }
    TUTTI_FAULT_POINT("lane.opened");
  }

  TUTTI_ALWAYS_INLINE void begin_round() {
    ++round_;
    this->begin_channels_round();
  }

  TUTTI_ALWAYS_INLINE bool settled() {
    const bool sent = this->channels_settled();
    return this->boards_settled() && sent;
  }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    this->awake();
    TUTTI_FAULT_POINT("lane.abandon");
    try {
      group_->fail({errc::peer_failed, rank_,
                    message() << "rank " << rank_ << " failed in " << call_.describe() << ": " << reason});
    } catch (...) {  // no memory for more than what fits into a string itself: others would wait for ever
      group_->fail({errc::peer_failed, rank_, "out of memory"});
    }
    leave_memory();
  }

  [[gnu::noinline, gnu::cold]] void withdraw() noexcept {
    this->awake();
    TUTTI_FAULT_POINT("lane.withdraw");
    group_->withdraw(rank_, index_);
    leave_memory();
  }

 private:
  /// Returns when nobody is in this rank's memory any more. All can know why they must not.
  void leave_memory() noexcept {
    if constexpr (Group::waits_for_readers) Group::fence::heavy();
    this->abandon_channels();
    this->abandon_boards();
  }
};

}  // namespace tutti::detail
