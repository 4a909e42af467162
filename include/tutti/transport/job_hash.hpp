// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::detail {

/// 128 bits that stand for a job of a user, or of nobody in particular.
struct job_hash {
  std::uint64_t words[2];

  static job_hash of(std::string_view job, std::uint32_t user = 0) {
    job_hash h{{0x243F6A8885A308D3ULL ^ user, 0x13198A2E03707344ULL + job.size()}};
    for (const char c : job) {
      const auto byte = static_cast<unsigned char>(c);
      h.words[0] = mixed((h.words[0] ^ byte) + h.words[1]);
      h.words[1] = mixed(h.words[1] + 0x9E3779B97F4A7C15ULL * byte) ^ h.words[0];
    }
    h.words[0] = mixed(h.words[0] + h.words[1]);
    h.words[1] = mixed(h.words[1] + h.words[0]);
    return h;
  }

  std::string hexadecimal() const {
    std::string text;
    for (const std::uint64_t word : words)
      for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    return text;
  }
  friend bool operator==(const job_hash& a, const job_hash& b) {
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
  }

 private:
  // The finaliser of splitmix64, a bijection (Steele, Lea, Flood 2014).
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
};

}  // namespace tutti::detail
