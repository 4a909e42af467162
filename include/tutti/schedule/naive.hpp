// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

namespace tutti {

/// Naive all-to-all: everybody sends the whole vector to everybody and folds all in rank order. One round, (p-1)n bytes
/// per rank, fan-in p-1. Keeps rank order, and every rank computes the same bits. For tiny messages and few ranks.
struct naive {
  static constexpr std::string_view name = "naive";

  struct allreduce {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;
    static constexpr bool whole_vector = true;
    static constexpr auto folding = folds::at_once;

    constexpr int rounds(place at) const { return at.size > 1 ? 1 : 0; }
    constexpr int blocks(int) const { return 1; }
    // Two ranks have nothing to gain from publishing to all: a message is cheaper.
    constexpr bool shared(place at, int) const { return at.size > 2; }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      for (int peer = at.rank + 1; peer < at.size; ++peer) emit(send_to{peer, one_block(0)});
      for (int peer = 0; peer < at.rank; ++peer) emit(send_to{peer, one_block(0)});
      for (int peer = 0; peer < at.rank; ++peer) emit(combine{peer, one_block(0), side::left});
      for (int peer = at.rank + 1; peer < at.size; ++peer) emit(combine{peer, one_block(0), side::right});
    }
  };
};

}  // namespace tutti
