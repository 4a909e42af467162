// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a rank that waits in vain says of it: the same on every transport.

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <string_view>

namespace tutti::detail {

/// Who waits for whom, and where.
struct waiting_place {
  int rank;
  int awaited;
  int round;
  const call& during;
};

inline message& operator<<(message& text, const waiting_place& at) {
  if (!at.during.is_message()) text << " in round " << at.round << " of ";
  return (at.during.is_message() ? text << " in " : text) << at.during.describe();
}

/// A message of the right call has not the size that is expected.
[[gnu::noinline, gnu::cold]] inline failure unexpected_size(const waiting_place& at, std::size_t sent,
                                                            std::size_t expected) {
  message text;
  text << "rank " << at.awaited << " sent " << sent << " bytes where rank " << at.rank << " expects " << expected << at
       << ": the schedule does not fit together";
  return {errc::mismatch, at.awaited, text};
}

/// The rank waited for has left.
[[gnu::noinline, gnu::cold]] inline failure left_early(const waiting_place& at) {
  message text;
  text << "rank " << at.awaited << " left while rank " << at.rank << " waited for it" << at;
  return {errc::peer_failed, at.awaited, text};
}

/// The rank itself has ended the group.
[[gnu::noinline, gnu::cold]] inline failure aborted(int rank, std::string_view text) {
  return {errc::peer_failed, rank, message() << "rank " << rank << " aborted: " << text};
}

/// That of a rank is over; `how` follows its number.
[[gnu::noinline, gnu::cold]] inline failure rank_ended(int rank, std::string_view how) {
  return {errc::peer_failed, rank, message() << "rank " << rank << how};
}

/// The rank waited for may itself wait for another: if some of `ranks` ranks have not come to this call, the last of
/// them is late, else the one waited for; `last(rank)` is the number of its last call.
template <class Last>
int last_to_come(const waiting_place& at, int ranks, Last&& last) {
  int late = at.awaited;
  if (at.during.is_message()) return late;
  for (int rank = 0; rank < ranks; ++rank)
    if (last(rank) < at.during.sequence && last(rank) < last(late)) late = rank;
  return late;
}

/// The deadline has passed, and that rank is to blame; `came`: it has called what the others have.
[[gnu::noinline, gnu::cold]] inline failure too_late(const waiting_place& at, int late, long long milliseconds,
                                                     bool came) {
  message text;
  text << "rank " << late << " was late: rank " << at.rank << " waited " << milliseconds << " ms for rank "
       << at.awaited << at;
  if (!came && !at.during.is_message()) text << ", which that rank has not called";
  return {errc::timed_out, late, text};
}

}  // namespace tutti::detail
