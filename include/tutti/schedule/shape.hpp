// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/template_name.hpp>

#include <array>

namespace tutti {

// A shape arranges ranks in rows of equal length: `Shape::row(size)` is the number of neighbouring ranks in a row, a
// divisor of `size`, or 0 where the shape does not fit; `Shape::name` is what users read.

namespace detail {

/// floor(sqrt(size)), `size >= 1`, bit by bit.
constexpr int floor_sqrt(int size) {
  int root = 0;
  for (int bit = 1 << (floor_log2(size) / 2); bit > 0; bit /= 2) {
    if (const long long wider = root + bit; wider * wider <= size) root += bit;
  }
  return root;
}

/// The largest divisor of `size` whose square is not above it.
constexpr int near_square_row(int size) {
  int row = floor_sqrt(size);
  while (size % row != 0) --row;
  return row;
}

inline constexpr auto near_square_rows = [] {
  std::array<unsigned char, 257> rows{};
  for (int size = 1; size <= 256; ++size)
    rows[static_cast<unsigned>(size)] = static_cast<unsigned char>(near_square_row(size));
  return rows;
}();

}  // namespace detail

/// As many rows as ranks in a row, or as near as the divisors of the size allow, rows shorter: 12 = 3 * 4. A prime
/// number of ranks has rows of one.
struct near_square {
  static constexpr std::string_view name = "near_square";
  static constexpr int row(int size) {
    return size <= 256 ? detail::near_square_rows[static_cast<unsigned>(size)] : detail::near_square_row(size);
  }
};

/// Rows of `Ranks` ranks, as many as there are; the size must be a multiple of it. For hosts of equally many ranks.
template <int Ranks>
struct rows_of {
  static_assert(Ranks >= 1, "a row has at least one rank");
  static constexpr std::string_view name = detail::template_name<"rows_of", detail::numeral<Ranks>>;
  static constexpr int row(int size) { return size % Ranks == 0 ? Ranks : 0; }
};

}  // namespace tutti
