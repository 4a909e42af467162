// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/fold.hpp>
#include <tutti/schedule/logarithm.hpp>

namespace tutti {

/// Recursive doubling, the butterfly: partners at distance 1, 2, 4, ... exchange whole vectors. f = floor(log2 p)
/// rounds and n f bytes per rank, two rounds and n bytes more unless p is a power of two. Keeps rank order; every rank
/// computes the same bits. For short vectors. Source: Thakur, Rabenseifner, Gropp 2005, section 4.5.
struct recursive_doubling {
  static constexpr std::string_view name = "recursive_doubling";

  struct exchange {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;
    static constexpr bool whole_vector = true;

    constexpr int rounds(place at) const { return detail::floor_log2(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int partner = at.rank ^ (1 << k);
      emit(send{partner, one_block(0)});
      emit(combine{partner, one_block(0), partner < at.rank ? side::left : side::right});
    }
  };
  using allreduce = folded<exchange>;
};

}  // namespace tutti
