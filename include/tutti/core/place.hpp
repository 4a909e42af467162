// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

class host_map;

/// Where a rank stands: `rank` in `[0, size)` among `size` ranks; where it is known which of them share a host, that
/// too. Everything a schedule may depend on besides the round.
struct place {
  int rank;
  int size;
  const host_map* hosts = nullptr;

  friend constexpr bool operator==(place, place) = default;
};

/// `value mod size`, always in `[0, size)`. Requires `size > 0`.
constexpr int modulo(int value, int size) {
  const int remainder = value % size;
  return remainder < 0 ? remainder + size : remainder;
}

}  // namespace tutti
