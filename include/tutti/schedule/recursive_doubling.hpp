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
    static constexpr bool canonical(int size) { return detail::is_power_of_two(size); }

    constexpr int rounds(place at) const { return detail::floor_log2(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int partner = at.rank ^ (1 << k);
      emit(send_to{partner, one_block(0)});
      emit(combine{partner, one_block(0), partner < at.rank ? side::left : side::right});
    }
  };
  using allreduce = folded<exchange>;

  /// Every rank adds what the rank 2^k below has summed so far. q = ceil(log2 p) rounds of n bytes, any p. Source:
  /// Hillis, Steele 1986.
  struct scan {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;
    static constexpr bool whole_vector = true;

    constexpr int rounds(place at) const { return detail::ceil_log2(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int distance = 1 << k;
      if (at.rank + distance < at.size) emit(send_to{at.rank + distance, one_block(0)});
      if (at.rank >= distance) emit(combine{at.rank - distance, one_block(0), side::left});
    }
  };

  /// Partners exchange the sums of their groups, as far as a later round has a use for them; what comes from below is
  /// added to the sum of the ranks below too. q rounds of n bytes, any p, 3n of memory.
  struct exscan {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;
    static constexpr int group = 0;
    static constexpr int below = 1;
    static constexpr int arriving = 2;
    static constexpr int vectors = 3;
    static constexpr int result = below;

    constexpr int rounds(place at) const { return detail::ceil_log2(at.size); }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int partner = at.rank ^ (1 << k);
      if (partner >= at.size) return;
      const bool keep = used_after(at, k);
      if (partner > at.rank) {
        emit(send_to{partner, one_block(0), group});
        if (keep) emit(combine{partner, one_block(0), side::right, group});
        return;
      }
      if (used_after({partner, at.size}, k)) emit(send_to{partner, one_block(0), group});
      const bool first = at.rank % (1 << k) == 0;
      if (first) {
        emit(recv_from{partner, one_block(0), below});
        if (keep) emit(reduce_local{one_block(0), side::left, below, group});
      } else if (keep) {
        emit(recv_from{partner, one_block(0), arriving});
        emit(reduce_local{one_block(0), side::left, arriving, group});
        emit(reduce_local{one_block(0), side::left, arriving, below});
      } else {
        emit(combine{partner, one_block(0), side::left, below});
      }
    }

   private:
    /// Whether what the rank knows of its group after round k reaches a rank above in a later round: itself, or by way
    /// of partners below.
    static constexpr bool used_after(place at, int k) {
      for (int bit = 2 << k; bit < at.size; bit *= 2) {
        const int below_bit = at.rank & ((2 << k) - 1);
        if ((at.rank & bit) == 0 && ((at.rank & -bit) | bit | below_bit) < at.size) return true;
      }
      return false;
    }
  };
};

}  // namespace tutti
