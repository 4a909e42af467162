// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/logarithm.hpp>
#include <tutti/schedule/then.hpp>

#include <algorithm>
#include <bit>
#include <string_view>

namespace tutti {

namespace detail {

/// When which block of a broadcast from rank 0 comes to a rank of the circulant graph, in which round i sends along
/// skip(i mod q) = ceil(p / 2^(q - i mod q)). In the first q rounds a rank gets its base block b, the last skip of its
/// shortest way from rank 0, and in all others a block that rank 0 sent in the q rounds before, each once; the next q
/// rounds are the same, q blocks later. Source: Traff, arXiv 2407.18004, section 2.4.
class circulant_receptions {
 public:
  /// `rank` in `[1, size)`.
  constexpr circulant_receptions(int rank, int size)
      : rank_{rank},
        size_{size},
        phase_{ceil_log2(size)},
        end_{static_cast<long long>(rank) + size},
        base_{base_of(rank)} {}

  /// The block that comes in round k of the first q, less than 0 if it was sent in the q rounds before.
  constexpr int block(int k) {
    if (is_power_of_two(size_)) return block_in_hypercube(k);
    wanted_ = k;
    found_ = 0;
    farthest_ = end_ - skip(0);
    farthest_after_ = end_ - skip(1);
    unused_ = (2u << phase_) - 1 - (1u << base_);
    search(0, 2LL * size_, phase_);
    return last_ == phase_ ? base_ : last_ - phase_;
  }

  static constexpr int skip(int k, int size) {
    const int halvings = ceil_log2(size) - k;
    return ((size - 1) >> halvings) + 1;
  }

 private:
  constexpr long long skip(int k) const { return ((size_ - 1) >> (phase_ - k)) + 1; }

  constexpr int base_of(int rank) const {
    if (is_power_of_two(size_)) return std::countr_zero(static_cast<unsigned>(rank));
    int k = phase_;
    while (rank > 0) {
      --k;
      if (rank >= skip(k)) rank -= static_cast<int>(skip(k));
    }
    return k;
  }

  /// What the search comes to among a power of two of ranks: the way to a rank takes the skips of its bits.
  constexpr int block_in_hypercube(int k) const {
    if ((rank_ >> k) % 2 == 0) return k - phase_;
    const int higher = rank_ >> (k + 1);
    return higher == 0 ? base_ : k + 1 + std::countr_zero(static_cast<unsigned>(higher)) - phase_;
  }

  /// Goes on from rank `at` by skips up to number `e`, and finds, for one round after the other, the farthest rank
  /// below `bound` from which the skip of that round does not lead beyond the end, by a last skip that no earlier round
  /// has found. The bound is strict and an inner search may begin with the same skip; without either the schedule is
  /// wrong at p = 33, 65, 66, 67, ... True once the wanted round is found.
  constexpr bool search(long long at, long long bound, int e) {
    for (; e >= 0; e = next_unused(e)) {
      const long long to = at + skip(e);
      if (to > farthest_ || to >= bound) continue;
      if (to <= farthest_after_ && search(to, bound, e)) return true;
      if (at > farthest_after_) return false;
      if (found_ == wanted_) {
        last_ = e;
        return true;
      }
      ++found_;
      farthest_ = farthest_after_;
      farthest_after_ = end_ - skip(found_ + 1);
      bound = to;
      unused_ &= ~(1u << e);
    }
    return false;
  }
  constexpr int next_unused(int e) const { return static_cast<int>(std::bit_width(unused_ & ((1u << e) - 1))) - 1; }

  int rank_;
  int size_;
  int phase_;  // q
  long long end_;
  int base_;
  unsigned unused_ = 0;  // the skips that no round has found as last
  int wanted_ = 0;
  int found_ = 0;
  long long farthest_ = 0;        // rank from which the skip of the round looked for does not lead beyond the end
  long long farthest_after_ = 0;  // and that of the round after
  int last_ = 0;
};

}  // namespace detail

/// Pipelined broadcast on the circulant graph: in each round every rank sends one of k segments to the rank a skip
/// above and receives one from the rank a skip below, the skips being those of `circulant`. k - 1 + q rounds, q =
/// ceil(log2 p), which no schedule with one port can beat, for any p and root. Every rank receives n bytes and sends at
/// most that, but the root, which sends a segment in every round. Reduce is the same backwards, allreduce both. Does
/// not keep rank order. For long vectors; a round is worked out in O(q). Source: Traff, arXiv 2407.18004.
struct circulant_pipelined {
  static constexpr std::string_view name = "circulant_pipelined";

  struct reduce {
    static constexpr bool rank_ordered = false;
    static constexpr bool overlapping = false;

    int root;
    int segments = 1;

    constexpr int rounds(place at) const { return at.size > 1 ? segments - 1 + detail::ceil_log2(at.size) : 0; }
    constexpr int blocks(int) const { return segments; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const int now = rounds(at) - 1 - k;  // of the broadcast
      const int skip = detail::circulant_receptions::skip(skip_number(at.size, now), at.size);
      const int below = modulo(at.rank - skip, at.size);
      const int above = at.rank < at.size - skip ? at.rank + skip : at.rank - (at.size - skip);
      if (const int block = received(at, now); block >= 0) emit(send_to{below, one_block(block)});
      if (const int block = received({above, at.size}, now); block >= 0) {
        emit(combine{above, one_block(block), side::right});
      }
    }

   private:
    /// So many of the first q rounds are left out that the last segment comes at the end of q rounds.
    constexpr int left_out(int phase) const { return (phase - (segments - 1) % phase) % phase; }
    constexpr int skip_number(int size, int now) const {
      const int phase = detail::ceil_log2(size);
      return (now + left_out(phase)) % phase;
    }
    /// The segment that a rank receives in a round of the broadcast, or less than 0. In the last q rounds only the base
    /// block is none before the last segment: that is the one time that the last segment comes.
    constexpr int received(place at, int now) const {
      if (at.rank == root) return -1;
      const int phase = detail::ceil_log2(at.size);
      const int i = now + left_out(phase);
      const int block = detail::circulant_receptions(modulo(at.rank - root, at.size), at.size).block(i % phase);
      return std::min(block + i / phase * phase - left_out(phase), segments - 1);
    }
  };
  using broadcast = dual<reduce>;
  using allreduce = then<rooted_at<reduce, 0>, rooted_at<broadcast, 0>>;
};

}  // namespace tutti
