// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>
#include <tutti/core/place.hpp>
#include <tutti/core/step.hpp>
#include <tutti/schedule/schedule.hpp>

#include <type_traits>

namespace tutti {

/// Whether the schedule folds as its `folding` says among `size` ranks: `nothing` means that it has no `combine`;
/// `at_once`, that they are all in the first round, when everybody still has its own contribution, and that a rank's
/// are for one set of blocks, one after the other, and one from each other rank. To be asked in a static_assert.
template <schedule S>
constexpr bool folds_as_it_says(const S& s, int size) {
  if (folding<S> == folds::repeatedly) return true;
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    for (int k = 0; k < s.rounds(at); ++k) {
      bool right = true;
      bool ended = false;  // something else was listed after a combine
      int folded = 0;
      block_set what{};
      s.round(at, k, [&](const auto& step) {
        if constexpr (is_combine<std::remove_cvref_t<decltype(step)>>) {
          if (folded == 0) what = step.what;
          right = right && !ended && step.what == what && step.peer != rank;
          ++folded;
        } else {
          ended = folded != 0;
        }
      });
      // A rank sends each other rank one contribution to a block (the schedule is proved), so that many peers are all.
      if (folded != 0) right = right && folding<S> == folds::at_once && k == 0 && folded == size - 1;
      if (!right) return false;
    }
  }
  return true;
}

}  // namespace tutti
