// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

namespace tutti {

/// How `count` elements are divided into `blocks` consecutive blocks: as evenly as can be, larger blocks first.
/// Block b holds `count / blocks + (b < count % blocks)` elements. Requires `blocks > 0`.
class layout {
 public:
  constexpr layout(std::size_t count, int blocks)
      : count_(count),
        blocks_(blocks),
        quotient_(blocks == 1 ? count : count / static_cast<std::size_t>(blocks)),
        remainder_(blocks == 1 ? 0 : count % static_cast<std::size_t>(blocks)) {}

  /// Elements in all.
  constexpr std::size_t count() const { return count_; }
  /// Number of blocks.
  constexpr int blocks() const { return blocks_; }
  /// Whether all blocks hold equally many elements, and how many.
  constexpr bool even() const { return remainder_ == 0; }
  constexpr std::size_t even_size() const { return quotient_; }
  /// Elements in one block.
  constexpr std::size_t size(int block) const {
    return quotient_ + (static_cast<std::size_t>(block) < remainder_ ? 1 : 0);
  }
  /// Elements before the block.
  constexpr std::size_t offset(int block) const {
    const auto b = static_cast<std::size_t>(block);
    return b * quotient_ + (b < remainder_ ? b : remainder_);
  }

 private:
  std::size_t count_;
  int blocks_;
  std::size_t quotient_;
  std::size_t remainder_;
};

}  // namespace tutti
