// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/then.hpp>

namespace tutti {

/// Star: everybody talks to the root, in one round. The building block of `flat` and `single_master`.
struct star {
  static constexpr std::string_view name = "star";

  /// The root folds all in rank order. Root receives (p-1)n bytes.
  struct reduce {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr bool whole_vector = true;
    static constexpr auto folding = folds::at_once;

    int root;

    constexpr int rounds(place at) const { return at.size > 1 ? 1 : 0; }
    constexpr int blocks(int) const { return 1; }
    constexpr bool shared(place, int) const { return true; }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      if (at.rank != root) {
        emit(send_to{root, one_block(0)});
        return;
      }
      for (int peer = 0; peer < root; ++peer) emit(combine{peer, one_block(0), side::left});
      for (int peer = root + 1; peer < at.size; ++peer) emit(combine{peer, one_block(0), side::right});
    }
  };
  using broadcast = dual<reduce>;

  /// Rank b's block comes to the root. Root receives n(p-1)/p bytes.
  struct gather {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr auto folding = folds::nothing;

    int root;

    constexpr int rounds(place at) const { return at.size > 1 ? 1 : 0; }
    constexpr int blocks(int size) const { return size; }
    constexpr bool shared(place, int) const { return true; }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      if (at.rank != root) {
        emit(send_to{root, one_block(at.rank)});
        return;
      }
      for (int i = 1; i < at.size; ++i) {
        const int peer = (root + i) % at.size;
        emit(recv_from{peer, one_block(peer)});
      }
    }
  };
  using scatter = dual<gather>;
};

}  // namespace tutti
