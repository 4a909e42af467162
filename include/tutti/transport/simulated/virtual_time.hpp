// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <cmath>
#include <cstdint>

namespace tutti::detail {

/// Virtual time in picoseconds: whole numbers, so that a run is the same wherever it is compiled. Good for a hundred
/// days.
using virtual_time = std::int64_t;

inline constexpr virtual_time never = INT64_MAX;
inline constexpr virtual_time longest_span = never / 4;

/// Rounded to the nearest picosecond.
inline virtual_time span_of(double seconds) {
  const double picoseconds = seconds * 1e12;
  return picoseconds >= static_cast<double>(longest_span) ? longest_span : std::llround(picoseconds);
}
inline virtual_time span_of(std::chrono::nanoseconds span) {
  return span.count() >= longest_span / 1000 ? longest_span : span.count() * 1000;
}
inline double seconds_of(virtual_time span) { return static_cast<double>(span) * 1e-12; }

/// The later of two, and a time some span later; times do not run over.
inline virtual_time later(virtual_time a, virtual_time b) { return a < b ? b : a; }
inline virtual_time after(virtual_time at, virtual_time span) { return at > never - span ? never : at + span; }

}  // namespace tutti::detail
