// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/policy.hpp>
#include <tutti/core/block_set.hpp>
#include <tutti/core/inline.hpp>

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

}  // namespace tutti::detail
