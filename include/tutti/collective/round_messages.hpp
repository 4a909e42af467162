// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/policy.hpp>
#include <tutti/core/block_set.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>

namespace tutti::detail {

/// A step of a round as it is kept until it has been done.
struct listed_step {
  int peer;
  int first;
  int stride;
  int count;

  TUTTI_ALWAYS_INLINE block_set what() const { return {first, stride, count}; }
};

/// A step's blocks, numbered as they are where a rank works on several vectors: without wrapping around.
template <class Storage>
TUTTI_ALWAYS_INLINE inline block_set blocks_in(const Storage& storage, const block_set& set, int vector) {
  if constexpr (Storage::vectors > 1) {
    return {set.first + vector * storage.parts(), set.stride, set.count};
  } else {
    return set;
  }
}

/// The only step of a list.
template <class List>
TUTTI_ALWAYS_INLINE inline listed_step only_step(const List& list) {
  return {list.template only<&listed_step::peer>(), list.template only<&listed_step::first>(),
          list.template only<&listed_step::stride>(), list.template only<&listed_step::count>()};
}

/// In how many messages a step's blocks travel: as one if they are one run of memory or small; else each run of
/// neighbouring blocks, and each block of a strided set, is a message of its own. Both ends decide from the same
/// numbers.
template <class Storage>
TUTTI_ALWAYS_INLINE inline int messages(const Storage& storage, const policy& how, const block_set& set) {
  if constexpr (Storage::whole) {
    return 1;
  } else {
    if (set.count == 1 || storage.elements(set) * sizeof(typename Storage::value_type) <= how.pack_bytes) return 1;
    if (set.stride != 1) return set.count;
    return set.at(0, storage.blocks()) + set.count > storage.blocks() ? 2 : 1;
  }
}

/// The blocks of the m-th of `of` messages.
template <class Storage>
TUTTI_ALWAYS_INLINE inline block_set message_blocks(const Storage& storage, const block_set& set, int m, int of) {
  if (of == 1) return set;
  if (set.stride != 1) return one_block(set.at(m, storage.blocks()));
  const int first = set.at(0, storage.blocks());
  const int before_wrap = storage.blocks() - first;
  return m == 0 ? block_set{first, 1, before_wrap} : block_set{0, 1, set.count - before_wrap};
}

/// Whether messages on the lane have a size that they should not exceed.
template <class L>
inline constexpr bool in_pieces = requires(const L& lane) {
  lane.piece_bytes();
};

/// One message of a step: some of its blocks, or a piece of one.
struct message_part {
  block_set set;
  bool piece = false;
  std::size_t begin = 0;  // of the piece, in elements of the block
  std::size_t size = 0;   // of the piece
  bool last = true;       // of the block
};

/// A step's messages on the lane L. One that would be too large is sent block by block, and each block in pieces, of
/// which those beyond the end of the block are empty and not sent.
template <class L, class Storage>
class step_messages {
 public:
  TUTTI_ALWAYS_INLINE step_messages([[maybe_unused]] const L& lane, const Storage& storage, const policy& how,
                                    const block_set& what)
      : storage_(storage), what_(what), count_(messages(storage, how, what)) {
    if constexpr (in_pieces<L>) {
      if (storage.elements(what) * element <= lane.piece_bytes()) return;
      per_piece_ = lane.piece_bytes() / element == 0 ? 1 : lane.piece_bytes() / element;
      const std::size_t largest = storage.size(0);
      pieces_ = static_cast<int>((largest + per_piece_ - 1) / per_piece_);
      if (pieces_ == 0) pieces_ = 1;
      count_ = what.count * pieces_;
    }
  }

  TUTTI_ALWAYS_INLINE int count() const { return count_; }
  TUTTI_ALWAYS_INLINE message_part operator[](int m) const {
    if constexpr (in_pieces<L>) {
      if (pieces_ != 0) return piece(m);
    }
    return {message_blocks(storage_, what_, m, count_)};
  }

 private:
  static constexpr std::size_t element = sizeof(typename Storage::value_type);

  message_part piece(int m) const {
    const int block = what_.at(m / pieces_, storage_.blocks());
    const std::size_t size = storage_.size(block);
    const std::size_t begin = static_cast<std::size_t>(m % pieces_) * per_piece_;
    if (begin >= size) return {one_block(block), true, size, 0, m % pieces_ + 1 == pieces_};
    const std::size_t left = size - begin;
    return {one_block(block), true, begin, left < per_piece_ ? left : per_piece_, m % pieces_ + 1 == pieces_};
  }

  const Storage& storage_;
  const block_set what_;
  int count_;
  int pieces_ = 0;             // of each block; 0 if blocks are sent whole
  std::size_t per_piece_ = 0;  // elements
};

}  // namespace tutti::detail
