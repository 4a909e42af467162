// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/star.hpp>

namespace tutti {

/// Flat: everybody talks to everybody in one round; the sharded parameter server. n(p-1)/p bytes per rank over p-1
/// ports, fan-in p-1; allreduce 2 rounds and twice the bytes. Every reduction folds in rank order. Rooted collectives
/// are stars.
struct flat {
  static constexpr std::string_view name = "flat";
  static constexpr int rounds(int size) { return size > 1 ? 1 : 0; }
  static constexpr int ports(int size, int) { return size - 1; }
  static constexpr hop entry(int, int, int port) { return {port + 1, one_block(port + 1)}; }

  /// The derived schedule with its folds listed in rank order.
  struct reduce_scatter {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr auto folding = folds::at_once;

    constexpr int rounds(place at) const { return flat::rounds(at.size); }
    constexpr int blocks(int size) const { return size; }
    constexpr bool shared(place, int) const { return true; }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      for (int peer = at.rank + 1; peer < at.size; ++peer) emit(send_to{peer, one_block(peer)});
      for (int peer = 0; peer < at.rank; ++peer) emit(send_to{peer, one_block(peer)});
      for (int peer = 0; peer < at.rank; ++peer) emit(combine{peer, one_block(at.rank), side::left});
      for (int peer = at.rank + 1; peer < at.size; ++peer) emit(combine{peer, one_block(at.rank), side::right});
    }
  };

  /// Each rank sends to the next one first, or all would begin with the same one, and takes what comes in the order in
  /// which it then comes.
  struct allgather {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = false;
    static constexpr auto folding = folds::nothing;

    constexpr int rounds(place at) const { return flat::rounds(at.size); }
    constexpr int blocks(int size) const { return size; }
    constexpr bool shared(place, int) const { return true; }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      for (int peer = at.rank + 1; peer < at.size; ++peer) emit(send_to{peer, one_block(at.rank)});
      for (int peer = 0; peer < at.rank; ++peer) emit(send_to{peer, one_block(at.rank)});
      for (int peer = at.rank - 1; peer >= 0; --peer) emit(recv_from{peer, one_block(peer)});
      for (int peer = at.size - 1; peer > at.rank; --peer) emit(recv_from{peer, one_block(peer)});
    }
  };
  using barrier = allgather;

  /// Slot h is exchanged with the ranks at distance h: the derived schedule without its search.
  struct alltoall {
    static constexpr bool rank_ordered = true;
    static constexpr bool overlapping = true;

    constexpr int rounds(place at) const { return flat::rounds(at.size); }
    constexpr int blocks(int size) const { return size; }
    constexpr bool shared(place, int) const { return true; }
    constexpr int destination(place at, int slot) const { return cyclic{at.size}.multiply(at.rank, slot); }
    constexpr int source(place at, int slot) const {
      return cyclic{at.size}.multiply(at.rank, cyclic{at.size}.inverse(slot));
    }
    template <class Emit>
    constexpr void round(place at, int, Emit&& emit) const {
      for (int slot = 1; slot < at.size; ++slot) emit(send_to{destination(at, slot), one_block(slot)});
      for (int slot = 1; slot < at.size; ++slot) emit(recv_from{source(at, slot), one_block(slot)});
    }
  };

  using reduce = star::reduce;
  using broadcast = star::broadcast;
  using gather = star::gather;
  using scatter = star::scatter;
};

namespace detail {
template <>
struct remaining_way<flat> {
  static constexpr bool nested(int) { return true; }
  static constexpr int before(int, int k, int h) { return k == 0 ? h : 0; }
};
}  // namespace detail

static_assert(proved<flat, 1, 8>);

}  // namespace tutti
