// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>

namespace tutti::detail {

/// floor(log2(size)), `size >= 1`.
constexpr int floor_log2(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size))) - 1; }

/// ceil(log2(size)), `size >= 1`.
constexpr int ceil_log2(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

constexpr bool is_power_of_two(int size) { return size > 0 && (size & (size - 1)) == 0; }  // without counting bits

}  // namespace tutti::detail
