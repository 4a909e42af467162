// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace tutti::detail {

/// Mixes a number into a hash, all bits into all bits. Source: the finaliser of MurmurHash3, Stafford's variant 13.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t h = hash + 0x9E3779B97F4A7C15ULL + value;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

/// What is drawn from the seed for one subject: the same whenever it is asked for, in whatever order.
class chance {
 public:
  explicit constexpr chance(std::uint64_t seed) : hash_(mix(0, seed)) {}
  constexpr chance of(std::uint64_t subject) const {
    chance result = *this;
    result.hash_ = mix(hash_, subject);
    return result;
  }
  constexpr std::uint64_t bits() const { return hash_; }
  /// Evenly distributed in [0, 1).
  constexpr double uniform() const { return static_cast<double>(hash_ >> 11) * 0x1p-53; }

 private:
  std::uint64_t hash_;
};

}  // namespace tutti::detail
