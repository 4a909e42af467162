// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/policy.hpp>
#include <tutti/collective/round_messages.hpp>
#include <tutti/collective/step_list.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>

#include <cstddef>
#include <type_traits>

namespace tutti::detail {

/// What a round folds from one of the rank's vectors into another when everything has arrived: nothing where a rank
/// works on one vector.
template <class Storage>
class round_locals {
 public:
  void clear() {}
  void add(const Storage&, const reduce_local&, arena&) {}
  template <class Op>
  TUTTI_ALWAYS_INLINE void apply(Storage&, Op&) {}
};

template <class Storage>
requires(Storage::vectors > 1) class round_locals<Storage> {
 public:
  void clear() {
    steps_.clear();
    applied_ = false;
  }
  void add(const Storage& storage, const reduce_local& step, arena& scratch) {
    const block_set from = blocks_in(storage, step.what, step.from);
    const block_set into = blocks_in(storage, step.what, step.into);
    steps_.push_back({from.first, into.first, into.stride, into.count, step.operand}, scratch);
  }
  template <class Op>
  void apply(Storage& storage, Op& op) {
    if (applied_) return;
    if (steps_.size() == 1) {
      fold_blocks(storage, op, steps_.template only<&local::from>(), steps_.template only<&local::into>(),
                  steps_.template only<&local::stride>(), steps_.template only<&local::count>(),
                  steps_.template only<&local::operand>());
    } else {
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        const local& step = steps_.entries()[i];
        fold_blocks(storage, op, step.from, step.into, step.stride, step.count, step.operand);
      }
    }
    applied_ = true;
  }

 private:
  struct local {
    int from;
    int into;
    int stride;
    int count;
    side operand;
  };

  template <class Op>
  static void fold_blocks(Storage& storage, Op& op, int from, int into, int stride, int count, side operand) {
    if constexpr (!std::is_same_v<Op, no_operation>) {
      for (int i = 0; i < count; ++i) {
        const int to = into + i * stride;
        const auto* const other = storage.source(from + i * stride);
        const auto* const own = storage.source(to);
        const bool left = operand == side::left;
        fold_pair(storage.target(to), left ? other : own, left ? own : other, storage.size(to), op, false);
        storage.mark(to);
      }
    }
  }

  step_list<local> steps_;
  bool applied_ = false;
};

}  // namespace tutti::detail
