// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/then.hpp>

#include <string_view>

namespace tutti {

/// Pipelined chain: the vector travels from rank to rank in k segments, one segment a round. k + p - 2 rounds and n
/// bytes sent and received per rank, for any p and root; allreduce twice that. For the longest vectors among few ranks.
///
/// Reduce folds the ranks from the root on, round the end, to the one below the root, since one chain with its root in
/// the middle cannot keep rank order; so it keeps it for root 0. Allreduce, by way of rank 0, does, and so do scan and
/// exscan; exscan takes 2n of memory.
struct chain {
  static constexpr std::string_view name = "chain";

 private:
  /// Where a rank stands in the chain: it gets segment i in round `position - 1 + i` and hands it on in the next.
  struct stage {
    int position;
    int size;
    int segments;

    static constexpr int rounds(int size, int segments) { return size > 1 ? segments + size - 2 : 0; }

    constexpr bool receives() const { return position > 0; }
    constexpr bool sends() const { return position < size - 1; }
    constexpr int arriving(int k) const { return k - (position - 1); }
    constexpr int leaving(int k) const { return k - position; }
    constexpr bool exists(int segment) const { return segment >= 0 && segment < segments; }

    constexpr int begin() const { return receives() ? position - 1 : position; }
    constexpr int end() const { return sends() ? position + segments : position - 1 + segments; }
    constexpr int next_round(int k) const { return k < begin() ? begin() : k < end() ? k : rounds(size, segments); }
    constexpr int previous_round(int k) const { return k >= end() ? end() - 1 : k >= begin() ? k : -1; }
  };

  /// Scan and exscan: a rank folds what comes from the rank below into its own and hands that on.
  template <bool Exclusive>
  struct prefix {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    // The fold with the rank's own value and, for exscan, the one without.
    static constexpr int inclusive = 0;
    static constexpr int exclusive = 1;
    static constexpr int vectors = Exclusive ? 2 : 1;
    static constexpr int result = Exclusive ? exclusive : inclusive;

    int segments = 1;

    constexpr int rounds(place at) const { return stage::rounds(at.size, segments); }
    constexpr int blocks(int) const { return segments; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const stage s = stage_of(at);
      if (const int segment = s.leaving(k); s.sends() && s.exists(segment)) {
        emit(send_to{at.rank + 1, one_block(segment), inclusive});
      }
      if (const int segment = s.arriving(k); s.receives() && s.exists(segment)) {
        if constexpr (Exclusive) {
          emit(recv_from{at.rank - 1, one_block(segment), exclusive});
          if (s.sends()) emit(reduce_local{one_block(segment), side::left, exclusive, inclusive});
        } else {
          emit(combine{at.rank - 1, one_block(segment), side::left});
        }
      }
    }
    constexpr int next_round(place at, int k) const { return stage_of(at).next_round(k); }
    constexpr int previous_round(place at, int k) const { return stage_of(at).previous_round(k); }

   private:
    constexpr stage stage_of(place at) const { return {at.rank, at.size, segments}; }
  };

 public:
  struct reduce {
    static constexpr bool rank_ordered = false;
    static constexpr bool rank_ordered_at(place at) { return at.rank == 0; }
    static constexpr bool overlapping = false;

    int root;
    int segments = 1;

    constexpr int rounds(place at) const { return stage::rounds(at.size, segments); }
    constexpr int blocks(int) const { return segments; }
    template <class Emit>
    constexpr void round(place at, int k, Emit&& emit) const {
      const stage s = stage_of(at);
      // Backwards, so that broadcast, the dual, goes forwards and an allreduce begins again with what is newest.
      const auto block = [&](int segment) { return one_block(segments - 1 - segment); };
      if (const int segment = s.leaving(k); s.sends() && s.exists(segment)) {
        emit(send_to{modulo(at.rank - 1, at.size), block(segment)});
      }
      if (const int segment = s.arriving(k); s.receives() && s.exists(segment)) {
        emit(combine{modulo(at.rank + 1, at.size), block(segment), side::right});
      }
    }
    constexpr int next_round(place at, int k) const { return stage_of(at).next_round(k); }
    constexpr int previous_round(place at, int k) const { return stage_of(at).previous_round(k); }

   private:
    /// From the rank below the root, downwards and round the end, to the root.
    constexpr stage stage_of(place at) const { return {modulo(root - 1 - at.rank, at.size), at.size, segments}; }
  };
  using broadcast = dual<reduce>;

 private:
  struct ordered_reduce : rooted_at<reduce, 0> {
    static constexpr bool rank_ordered = true;
  };

 public:
  using allreduce = then<ordered_reduce, rooted_at<broadcast, 0>>;
  using scan = prefix<false>;
  using exscan = prefix<true>;
};

}  // namespace tutti
