// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/route.hpp>
#include <tutti/schedule/schedule.hpp>
#include <tutti/schedule/then.hpp>

#include <algorithm>

namespace tutti {

namespace detail {

/// The side of an arriving operand. A route that claims rank order has groups of neighbours meet, so ranks tell the
/// side.
template <class R>
constexpr side side_of(int peer, int rank) {
  return route_view<R>::rank_ordered && peer < rank ? side::left : side::right;
}

/// The hops of a round. It goes over them twice, and working them out is most of what it does: so the first few are
/// kept.
template <route R>
class hops_of_round {
 public:
  constexpr hops_of_round(int size, int k) : size_{size}, k_{k}, count_{view::ports(size, k)} {
    for (int port = 0; port < count_ && port < few; ++port) kept_[port] = view::entry(size, k, port);
  }
  constexpr int count() const { return count_; }
  constexpr hop operator[](int port) const { return port < few ? kept_[port] : view::entry(size_, k_, port); }

 private:
  using view = route_view<R>;
  static constexpr int few = multi_port_route<R> ? 4 : 1;

  int size_;
  int k_;
  int count_;
  hop kept_[few] = {};
};

/// What is left, before round k, of a way of displacement h. This search serves every route; families specialise it. A
/// family may have `nested(size)` too: whether each beginning of a way is the whole way to where it leads. Then a rank
/// has nothing to pass on before its own block is there.
template <class R>
struct remaining_way {
  static constexpr int before(int size, int k, int h) {
    using view = route_view<R>;
    const typename view::group_type g{size};
    int left = h;
    for (int i = 0; i < k && left != 0; ++i) {
      for (int port = 0; port < view::ports(size, i); ++port) {
        if (const auto [by, what] = view::entry(size, i, port); contains(what, left, size)) {
          left = g.multiply(g.inverse(by), left);
          break;
        }
      }
    }
    return left;
  }
};

template <class R>
constexpr bool nested_ways(int size) {
  if constexpr (requires { remaining_way<R>::nested(size); }) {
    return remaining_way<R>::nested(size);
  } else {
    return false;
  }
}

}  // namespace detail

/// Reduce-scatter along the route: rank x sends the partial results of `x * B` to `x * g` and folds those of `z * B`
/// that arrive from `z = x * g^-1`. Block b ends at rank b. Sends n(p-1)/p bytes per rank, in the route's rounds, in
/// place.
template <route R>
struct reduce_scatter_of {
  static constexpr bool rank_ordered = detail::route_view<R>::rank_ordered;
  static constexpr bool canonical(int size) { return detail::route_view<R>::canonical(size); }
  static constexpr bool overlapping = false;

  constexpr int rounds(place at) const { return R::rounds(at.size); }
  constexpr int blocks(int size) const { return size; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    using view = detail::route_view<R>;
    const typename view::group_type g{at.size};
    const detail::hops_of_round<R> hops(at.size, k);
    for (int port = 0; port < hops.count(); ++port) {
      const auto [by, what] = hops[port];
      if (what.count > 0) emit(send_to{g.multiply(at.rank, by), g.translate(at.rank, what)});
    }
    for (int port = 0; port < hops.count(); ++port) {
      const auto [by, what] = hops[port];
      const int from = g.multiply(at.rank, g.inverse(by));
      if (what.count > 0) emit(combine{from, g.translate(from, what), detail::side_of<R>(from, at.rank)});
    }
  }
};

/// Allgather: the dual of the reduce-scatter. Block b begins at rank b. Sends n(p-1)/p bytes per rank.
template <route R>
using allgather_of = dual<reduce_scatter_of<R>>;

/// Barrier: an allgather whose blocks are empty.
template <route R>
using barrier_of = allgather_of<R>;

/// Allreduce: reduce-scatter, then allgather. Sends 2n(p-1)/p bytes per rank.
template <route R>
using allreduce_of = then<reduce_scatter_of<R>, allgather_of<R>>;

/// Reduce to `root`: the reduce-scatter restricted to the root's block, which here is the whole vector.
template <route R>
struct reduce_of {
  static constexpr bool rank_ordered = detail::route_view<R>::rank_ordered;
  static constexpr bool canonical(int size) { return detail::route_view<R>::canonical(size); }
  static constexpr bool overlapping = false;
  static constexpr bool whole_vector = true;

  int root;

  constexpr int rounds(place at) const { return R::rounds(at.size); }
  constexpr int blocks(int) const { return 1; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    using view = detail::route_view<R>;
    const typename view::group_type g{at.size};
    const detail::hops_of_round<R> hops(at.size, k);
    for (int port = 0; port < hops.count(); ++port) {
      const auto [by, what] = hops[port];
      if (detail::contains(what, g.multiply(g.inverse(at.rank), root), at.size)) {
        emit(send_to{g.multiply(at.rank, by), one_block(0)});
      }
    }
    for (int port = 0; port < hops.count(); ++port) {
      const auto [by, what] = hops[port];
      const int from = g.multiply(at.rank, g.inverse(by));
      if (detail::contains(what, g.multiply(g.inverse(from), root), at.size)) {
        emit(combine{from, one_block(0), detail::side_of<R>(from, at.rank)});
      }
    }
  }
};

/// Broadcast from `root`: the dual of the reduce.
template <route R>
using broadcast_of = dual<reduce_of<R>>;

/// All-to-all in slots: slot h of rank x begins with the block for rank `x * h` and ends with the block from `x *
/// h^-1`; each round exchanges the slots whose remaining way passes along its hop. Rounds may name one peer several
/// times.
template <route R>
struct alltoall_of {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = true;

  using group_type = typename detail::route_view<R>::group_type;

  constexpr int rounds(place at) const { return R::rounds(at.size); }
  constexpr int blocks(int size) const { return size; }
  constexpr int destination(place at, int slot) const { return group_type{at.size}.multiply(at.rank, slot); }
  constexpr int source(place at, int slot) const {
    const group_type g{at.size};
    return g.multiply(at.rank, g.inverse(slot));
  }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    using view = detail::route_view<R>;
    const group_type g{at.size};
    const int ports = view::ports(at.size, k);
    for (int port = 0; port < ports; ++port) {
      const hop h = view::entry(at.size, k, port);
      moved(at.size, k, h, [&](block_set slots) { emit(send_to{g.multiply(at.rank, h.by), slots}); });
    }
    for (int port = 0; port < ports; ++port) {
      const hop h = view::entry(at.size, k, port);
      moved(at.size, k, h, [&](block_set slots) { emit(recv_from{g.multiply(at.rank, g.inverse(h.by)), slots}); });
    }
  }

 private:
  template <class Emit>
  static constexpr void moved(int size, int k, hop h, Emit emit) {
    detail::set_builder sets{size, emit};
    for (int slot = 1; slot < size; ++slot) {
      if (detail::contains(h.what, detail::remaining_way<R>::before(size, k, slot), size)) sets.add(slot);
    }
    sets.finish();
  }
};

/// Scatter from `root`: the all-to-all restricted to blocks that begin at the root, each named by where it ends. Where
/// the route's ways are nested a rank looks at the blocks of its hops, and only once it has its own; else each round
/// looks at all blocks.
template <route R>
struct scatter_of {
  static constexpr bool rank_ordered = true;
  static constexpr bool overlapping = false;

  int root;

  constexpr int rounds(place at) const { return R::rounds(at.size); }
  constexpr int blocks(int size) const { return size; }
  template <class Emit>
  constexpr void round(place at, int k, Emit&& emit) const {
    const group_type g{at.size};
    const bool nested = detail::nested_ways<R>(at.size);
    const int left = nested ? way::before(at.size, k, walked(at)) : 0;
    const detail::hops_of_round<R> hops(at.size, k);
    for (int port = 0; port < hops.count() && left == 0; ++port) {
      const hop h = hops[port];
      moved(at, k, h, [&](block_set blocks) { emit(send_to{g.multiply(at.rank, h.by), blocks}); });
    }
    for (int port = 0; port < hops.count(); ++port) {
      const hop h = hops[port];
      if (nested && h.by != left) continue;  // its own block comes along the last hop of its way, and all others then
      const int from = g.multiply(at.rank, g.inverse(h.by));
      moved({from, at.size}, k, h, [&](block_set blocks) { emit(recv_from{from, blocks}); });
    }
  }
  constexpr int next_round(place at, int k) const { return std::max(k, arrival(at)); }
  constexpr int previous_round(place at, int k) const { return k < arrival(at) ? -1 : k; }

 private:
  using group_type = typename detail::route_view<R>::group_type;
  using way = detail::remaining_way<R>;

  /// The rank's displacement from the root.
  constexpr int walked(place at) const {
    const group_type g{at.size};
    return g.multiply(g.inverse(root), at.rank);
  }
  /// The first round in which the rank may have a step: that of its own block, where ways are nested.
  constexpr int arrival(place at) const {
    if (!detail::nested_ways<R>(at.size) || walked(at) == 0) return 0;
    int begin = 0;
    for (int end = rounds(at); end - begin > 1;) {
      const int middle = (begin + end) / 2;
      (way::before(at.size, middle, walked(at)) == 0 ? end : begin) = middle;
    }
    return begin;
  }
  /// What passes along the hop from that place. Nested ways: requires that the rank has its own block.
  template <class Emit>
  constexpr void moved(place at, int k, hop h, Emit emit) const {
    const group_type g{at.size};
    detail::set_builder sets{at.size, emit};
    if (detail::nested_ways<R>(at.size)) {
      const block_set blocks = g.translate(at.rank, h.what);
      for (int i = 0; i < blocks.count; ++i) {
        const int block = blocks.at(blocks.stride < 0 ? blocks.count - 1 - i : i, at.size);
        const int left = g.multiply(g.inverse(at.rank), block);
        if (way::before(at.size, k, walked({block, at.size})) == left) sets.add(block);
      }
    } else {
      // In rank order from the root on, so that sets wrap around instead of breaking in two.
      for (int i = 1; i < at.size; ++i) {
        const int block = detail::wrapped(root + i, at.size);
        const int whole = walked({block, at.size});
        const int left = way::before(at.size, k, whole);
        if (g.multiply(walked(at), left) == whole && detail::contains(h.what, left, at.size)) sets.add(block);
      }
    }
    sets.finish();
  }
};

/// Gather to `root`: the dual of the scatter.
template <route R>
using gather_of = dual<scatter_of<R>>;

}  // namespace tutti
