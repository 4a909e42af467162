// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/then.hpp>

#include <bit>
#include <string_view>

namespace tutti {

/// Recursive halving along the canonical tree, for any p: `hypercube_doubling` among the next power of two of ranks, of
/// which those that do not exist are played by others. q = ceil(log2 p) rounds, strided blocks; every rank sends
/// n(p-1)/p bytes and receives at most q-1 blocks more. Keeps rank order and gives the same bits as a binomial reduce,
/// whichever way the vector is divided. The price: where p is little more than a power of two, the last ranks play many
/// others, up to p - 2, with a message of few blocks for each.
///
/// In round k neighbouring groups of 2^k ranks meet in pairs. In a group every rank, existing or not, has the sum over
/// the group of the blocks whose number is its own modulo 2^k; of these it sends those whose number is its partner's
/// modulo 2^(k+1), and folds what comes into the others.
struct canonical_halving {
  static constexpr std::string_view name = "canonical_halving";

  struct reduce_scatter {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr bool canonical(int) { return true; }

    constexpr int rounds(place at) const { return detail::ceil_log2(at.size); }
    constexpr int blocks(int size) const { return size; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int bit = 1 << k;
      const int last = at.size - 1;
      if (((at.rank ^ bit) >> k) > (last >> k)) return;  // nobody exists in the other group
      const int played = played_by(at) & (bit - 1);
      each_subset(played, [&](int others) {
        const int partner = (at.rank | others) ^ bit;
        if (const block_set what = kept_by(partner, bit, last); what.count > 0) {
          emit(send_to{player_of(partner, last), what});
        }
      });
      const side operand = (at.rank & bit) != 0 ? side::left : side::right;
      each_subset(played, [&](int others) {
        const int self = at.rank | others;
        if (const block_set what = kept_by(self, bit, last); what.count > 0) {
          emit(combine{player_of(self ^ bit, last), what, operand});
        }
      });
    }

   private:
    /// Who plays a rank that does not exist: the same without the highest bit that puts it beyond the last rank; its
    /// group met that rank's when it was empty. And so on, until there is one that exists.
    static constexpr int player_of(int rank, int last) {
      while (rank > last) rank ^= static_cast<int>(std::bit_floor(static_cast<unsigned>(rank ^ last)));
      return rank;
    }
    /// The bits that a rank may have more in those that it plays: those that the last rank has not, above the highest
    /// in which it differs from the last.
    static constexpr int played_by(place at) {
      const int last = at.size - 1;
      const int all = (1 << detail::ceil_log2(at.size)) - 1;
      const int agreeing = ~((1 << std::bit_width(static_cast<unsigned>(at.rank ^ last))) - 1);
      return all & ~last & agreeing;
    }
    /// `visit(subset)` for each subset of the bits, in ascending order.
    template <class Visit>
    static constexpr void each_subset(int bits, Visit visit) {
      int subset = 0;
      do {
        visit(subset);
        subset = (subset - bits) & bits;
      } while (subset != 0);
    }
    /// What of its blocks a rank keeps in the round of that bit.
    static constexpr block_set kept_by(int rank, int bit, int last) {
      const int first = rank & (2 * bit - 1);
      return {first, 2 * bit, first > last ? 0 : (last - first) / (2 * bit) + 1};
    }
  };
  using allgather = dual<reduce_scatter>;
  using allreduce = then<reduce_scatter, allgather>;
};

}  // namespace tutti
