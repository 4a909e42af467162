// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/mpi/note.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// How those ranks of a group meet that are about to make another one of some of its ranks. They wait in MPI's own call
/// then, where they hear nothing, and would do so for ever if one of them did not come. The first of them decides for
/// all, once all have told it that they are there; who has told it so goes on only with what is decided. Whoever has
/// waited as long as it may tells it that too: the first knows who is late, unless it is itself.
///
/// Of the group it uses `rank()`, `size()`, `number()`, `job()`, `in_job(rank)`, `check()`, `fail(failure)`, `works()`,
/// `has_left(rank)` and `described()`, as `mpi_group` has them.
class mpi_meeting {
 public:
  /// Returns when all of these ranks of the group are about to make one of that number. Throws where the group has
  /// failed, `peer_failed` naming who does not come, and `timed_out` naming who is late, of which the group fails.
  template <class Group>
  void meet(Group& of, int number, std::span<const int> members, std::chrono::nanoseconds limit) {
    if (members.size() == 1) return;
    const auto most = limit <= limit.zero() ? limit.max() : limit;
    if (of.rank() == members[0]) return meet_as_first(of, number, members.subspan(1), most);
    const int first = members[0];
    tell(of, first, note_kind::comes, number, there);
    const auto told = [&] { return decided_ >= number; };
    const auto over = [&] { return told() || !of.works() || of.has_left(first); };
    if (!of.job().poll_until(over, most)) {
      tell(of, first, note_kind::comes, number, there_too_long);
      if (!of.job().poll_until(over, patience)) of.fail(late(of, first, most));
    }
    if (!told()) {
      try {
        of.check();
      } catch (const error&) {  // the others have been told; what was decided before that may be on its way
      }
      of.job().poll_until(told, patience);
    }
    if (told() && all_come_) return;
    give_up(of, told() ? missed_ : first);
  }
  /// This rank does not come to that.
  template <class Group>
  void miss(Group& of, int number, std::span<const int> members) noexcept {
    of.job().skip(number);
    if (members.empty() || members[0] < 0 || members[0] >= of.size()) return;
    try {
      if (of.rank() != members[0]) return tell(of, members[0], note_kind::comes, number, never);
      never_ = std::max(never_, number);
      refuse(of, of.rank());
    } catch (...) {  // they may wait until their deadline
    }
  }
  /// The group has failed: nobody who has come goes on.
  template <class Group>
  void refuse(Group& of, int missed = -1) {
    for (const arrival& a : std::exchange(arrivals_, {}))
      if (a.says != never) tell(of, a.from, note_kind::decided, a.number, never, missed);
  }
  template <class Group>
  void take(Group& of, int from, const mpi_note& note) {
    const auto number = static_cast<int>(note.number);
    if (note.kind == note_kind::decided) {
      if (number <= decided_) return;
      decided_ = number;
      all_come_ = note.fingerprint != never;
      missed_ = note.what.peer;
    } else if (of.works() && number > never_) {
      std::erase_if(arrivals_, [&](const arrival& a) { return a.from == from && a.number == number; });
      arrivals_.push_back({from, number, note.fingerprint});
    } else if (note.fingerprint != never) {
      tell(of, from, note_kind::decided, number, never, of.works() ? of.rank() : -1);
    }
  }

 private:
  struct arrival {
    int from;
    int number;
    std::uint64_t says;
  };
  // What notes carry as `fingerprint`.
  static constexpr std::uint64_t never = 0;
  static constexpr std::uint64_t there = 1;
  static constexpr std::uint64_t there_too_long = 2;
  static constexpr std::chrono::milliseconds patience{2'000};

  template <class Group>
  void meet_as_first(Group& of, int number, std::span<const int> others, std::chrono::nanoseconds most) {
    int absent = -1;
    bool refused = false;
    const auto begin = std::chrono::steady_clock::now();
    of.job().poll_until(
        [&] {
          absent = -1;
          bool too_long = false;
          for (const int other : others) {
            const auto at = std::find_if(arrivals_.begin(), arrivals_.end(),
                                         [&](const arrival& a) { return a.number == number && a.from == other; });
            too_long = too_long || (at != arrivals_.end() && at->says == there_too_long);
            if (at != arrivals_.end() && at->says != never) continue;
            absent = other;
            refused = at != arrivals_.end() || of.has_left(other);
            if (refused) break;
          }
          return absent < 0 || refused || too_long || !of.works();
        },
        most);
    if (absent >= 0 && !refused && of.works()) of.fail(late(of, absent, std::chrono::steady_clock::now() - begin));
    const bool all_come = absent < 0 && of.works();
    for (const int other : others)
      tell(of, other, note_kind::decided, number, all_come ? there : never, of.works() ? absent : -1);
    std::erase_if(arrivals_, [&](const arrival& a) { return a.number <= number; });
    if (!all_come) give_up(of, of.works() ? absent : -1);
  }
  /// `missed` does not come; -1: the group has failed, and why may be on its way.
  template <class Group>
  [[noreturn, gnu::noinline, gnu::cold]] static void give_up(Group& of, int missed) {
    if (missed < 0) of.job().poll_until([&] { return !of.works(); }, patience);
    of.check();
    throw peer_failed(missed, message() << "rank " << missed
                                        << " does not come to a new communicator: it has failed, or left"
                                        << of.described());
  }
  template <class Group>
  static failure late(const Group& of, int who, std::chrono::nanoseconds waited) {
    return {errc::timed_out, who,
            message() << "rank " << who << " was late: rank " << of.rank() << " waited "
                      << static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count())
                      << " ms for rank " << who << " to come to a new communicator"};
  }
  template <class Group>
  static void tell(Group& of, int to, note_kind kind, int number, std::uint64_t says, int missed = -1) {
    mpi_note note;
    note.kind = kind;
    note.group = of.number();
    note.number = static_cast<std::uint64_t>(number);
    note.fingerprint = says;
    note.what.peer = missed;
    of.job().send(of.in_job(to), note);
  }

  std::vector<arrival> arrivals_;  // at the first of them
  int never_ = 0;                  // to no group of this number or a smaller one that it would be the first of
  int decided_ = 0;                // at the others: of which number
  bool all_come_ = false;
  int missed_ = -1;
};

}  // namespace tutti::detail
