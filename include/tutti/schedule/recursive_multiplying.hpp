// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/fold.hpp>
#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/template_name.hpp>

namespace tutti {

/// Recursive multiplying: as recursive doubling, but groups of `Radix` (a power of two) ranks exchange whole vectors
/// in each round and fold them in rank order. ceil(f / log2 Radix) rounds, f = floor(log2 p), Radix-1 messages each;
/// two rounds and n bytes more unless p is a power of two. Keeps rank order; every rank computes the same bits. For
/// the shortest vectors where several messages overlap, as in shared memory. Source: Ruefenacht, Bull, Booth, Parallel
/// Computing 69, 2017.
template <int Radix>
struct recursive_multiplying {
  static_assert(detail::is_power_of_two(Radix) && Radix >= 2, "the radix is a power of two");
  static constexpr std::string_view name = detail::template_name<"recursive_multiplying", detail::numeral<Radix>>;

  struct exchange {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;
    static constexpr bool whole_vector = true;

    constexpr int rounds(place at) const {
      constexpr int bits = detail::floor_log2(Radix);
      return (detail::floor_log2(at.size) + bits - 1) / bits;
    }
    constexpr int blocks(int) const { return 1; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int bit = k * detail::floor_log2(Radix);  // the lowest of the digit that this round sums over
      const int left = at.size >> bit;
      const int radix = left < Radix ? left : Radix;
      const int mine = (at.rank >> bit) & (radix - 1);
      const int first = at.rank - (mine << bit);
      for (int i = 1; i < radix; ++i) emit(send_to{first + (((mine + i) & (radix - 1)) << bit), one_block(0)});
      for (int i = 0; i < radix; ++i)
        if (i != mine) emit(combine{first + (i << bit), one_block(0), i < mine ? side::left : side::right});
    }
  };
  using allreduce = folded<exchange>;
};

}  // namespace tutti
