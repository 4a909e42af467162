// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

namespace tutti {

/// How the rounds of a pipelined schedule grow with its segments: `fixed + each * segments`.
struct pipeline {
  double fixed;
  double each;
};

/// The pipeline of `S` at that place, or among `size` ranks.
template <segmented S>
constexpr pipeline pipeline_of(place at) {
  constexpr int many = 65;
  const int one_segment = detail::make_schedule<S>(0, 1).rounds(at);
  const double each = (detail::make_schedule<S>(0, many).rounds(at) - one_segment) / double{many - 1};
  return {one_segment - each, each};
}
template <segmented S>
constexpr pipeline pipeline_of(int size) {
  return pipeline_of<S>(place{0, size});
}

/// The number of segments, at most `most`, in which `bytes` are moved soonest if a round takes `round` seconds and
/// `byte` more for each byte of a segment: k = sqrt(fixed bytes byte / (each round)), but no more than leave a
/// segment's bytes as much time as its round.
inline int best_segments(pipeline p, double bytes, double round, double byte, int most) {
  if (p.each <= 0 || bytes * byte < round) return 1;
  if (round <= 0) return most;
  const double moved = bytes * byte / round;  // the time of all bytes, in rounds
  const double best = __builtin_sqrt(p.fixed / p.each * moved);
  const double least = best < moved ? best : moved;
  return least < 1 ? 1 : least < most ? static_cast<int>(least) : most;
}

}  // namespace tutti
