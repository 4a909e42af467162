// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/place.hpp>

namespace tutti {

/// The blocks `first, first + stride, ..., first + (count - 1) * stride`, each taken modulo the number of blocks that
/// the schedule divides a vector into. `stride` may be negative. A set never names one block twice.
struct block_set {
  int first;
  int stride;
  int count;

  /// The i-th block of the set among `blocks`, `i` in `[0, count)`.
  constexpr int at(int i, int blocks) const {
    const long long block = static_cast<long long>(i) * stride + first;
    if (block >= 0 && block < blocks) return static_cast<int>(block);  // mostly, and without a division
    return wrapped(block, blocks);
  }

  /// The set moved by `by` blocks: what rank `by` handles where rank 0 handles this set (cyclic group).
  constexpr block_set shifted(int by) const { return {first + by, stride, count}; }

  friend constexpr bool operator==(const block_set&, const block_set&) = default;

  /// Any number, brought among the blocks.
  [[gnu::noinline]] static constexpr int wrapped(long long block, int blocks) {
    if (block < 0 && block + blocks >= 0) return static_cast<int>(block + blocks);
    if (block >= blocks && block - blocks < blocks) return static_cast<int>(block - blocks);
    return modulo(static_cast<int>(block % blocks), blocks);
  }
};

/// One block.
constexpr block_set one_block(int block) { return {block, 1, 1}; }

/// All blocks, in order.
constexpr block_set all_blocks(int blocks) { return {0, 1, blocks}; }

}  // namespace tutti
