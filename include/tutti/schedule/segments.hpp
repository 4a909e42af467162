// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

namespace tutti {

/// The number of segments in which `S` moves `bytes` among `size` ranks soonest, if a round takes `round` seconds and
/// `byte` more for each byte of a segment: with a + b k rounds for k segments, k = sqrt(a bytes byte / (b round)). At
/// least 1, at most `most`, and no more than leave a segment's bytes as much time as its round.
template <segmented S>
constexpr int best_segments(int size, double bytes, double round, double byte, int most) {
  constexpr int many = 65;
  const place first{0, size};
  const int one_segment = detail::make_schedule<S>(0, 1).rounds(first);
  const double each = (detail::make_schedule<S>(0, many).rounds(first) - one_segment) / double{many - 1};
  if (each <= 0) return 1;
  const double moved = bytes * byte / round;  // the time of all bytes, in rounds
  const double squared = (one_segment - each) / each * moved;
  int best = 1;
  while (best < most && (best + 1) * double{1} * (best + 1) <= squared && best + 1 <= moved) ++best;
  return best;
}

}  // namespace tutti
