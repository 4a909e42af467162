// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/place.hpp>
#include <tutti/core/value.hpp>

#include <algorithm>
#include <concepts>

namespace tutti {

/// The wires between ranks `[0, size)`: for a message from one rank to another they name the links that it crosses.
///
/// - `t.size`: number of ranks.
/// - `t.links()`: number of links, each of one direction: `[0, links)`.
/// - `t.hops(from, to)`: how many of them a message crosses, 0 if it has a wire of its own.
/// - `t.link(from, to, i)`: the i-th, `i` in `[0, hops)`.
/// - `t.width(link)`: how many times as many bytes as a rank's port it carries in the same time.
/// - optional, `t.hosts`: which ranks share a host, a `const host_map*`.
template <class T>
concept topology = detail::value<T> && requires(const T& t, int a) {
  { t.size } -> std::convertible_to<int>;
  { t.links() } -> std::same_as<int>;
  { t.hops(a, a) } -> std::same_as<int>;
  { t.link(a, a, a) } -> std::same_as<int>;
  { t.width(a) } -> std::same_as<double>;
};

/// The place of a rank on these wires.
template <topology T>
constexpr place place_on(const T& wires, int rank) {
  if constexpr (requires { wires.hosts; }) {
    return {rank, wires.size, wires.hosts};
  } else {
    return {rank, wires.size};
  }
}

/// A wire of its own from every rank to every other: nothing is shared but the ports of the ranks.
struct full_topology {
  int size;

  constexpr int links() const { return 0; }
  constexpr int hops(int, int) const { return 0; }
  constexpr int link(int, int, int) const { return 0; }
  constexpr double width(int) const { return 1; }
};

/// A ring, which messages walk the shorter way, upward if both are equally long. Link x leads from rank x to x + 1,
/// link size + x from rank x to x - 1.
struct ring_topology {
  int size;

  constexpr int links() const { return 2 * size; }
  constexpr int hops(int from, int to) const { return std::min(up(from, to), size - up(from, to)); }
  constexpr int link(int from, int to, int i) const {
    return up(from, to) <= size - up(from, to) ? (from + i) % size : size + (from - i + size) % size;
  }
  constexpr double width(int) const { return 1; }

 private:
  constexpr int up(int from, int to) const { return from <= to ? to - from : to - from + size; }
};

/// A two-dimensional torus of `columns` times `rows` ranks, rank = column + columns * row. Messages walk along their
/// row, then along the column, each the shorter way, upward if both are equally long. Links 4x to 4x + 3 lead from rank
/// x to its neighbours in the next and previous column and in the next and previous row.
struct torus_topology {
  int columns;
  int rows;
  int size = columns * rows;

  constexpr int links() const { return 4 * size; }
  constexpr int hops(int from, int to) const {
    return row().hops(from % columns, to % columns) + column().hops(from / columns, to / columns);
  }
  constexpr int link(int from, int to, int i) const {
    const int walked = row().hops(from % columns, to % columns);
    if (i < walked) {
      const int along = row().link(from % columns, to % columns, i);
      return along < columns ? number(along, from / columns, 0) : number(along - columns, from / columns, 1);
    }
    const int along = column().link(from / columns, to / columns, i - walked);
    return along < rows ? number(to % columns, along, 2) : number(to % columns, along - rows, 3);
  }
  constexpr double width(int) const { return 1; }

 private:
  constexpr ring_topology row() const { return {columns}; }
  constexpr ring_topology column() const { return {rows}; }
  constexpr int number(int x, int y, int direction) const { return 4 * (x + columns * y) + direction; }
};

/// A tree of switches, `arity` ranks under each of the lowest and `arity` switches under each of the others. All cables
/// up from a switch make one link, `taper` times narrower than those that come up to it: taper 1 is a fat tree of full
/// bisection, taper `arity` a thin one. Messages climb to the lowest switch above both ranks. A rank and a switch of
/// each level but the highest have a link up and, numbered behind all those, a link down.
struct fat_tree_topology {
  int size;
  int arity;
  double taper = 1;

  constexpr int links() const { return 2 * ups(); }
  constexpr int hops(int from, int to) const {
    int climbed = 0;
    for (; from != to; ++climbed) {
      from /= arity;
      to /= arity;
    }
    return 2 * climbed;
  }
  constexpr int link(int from, int to, int i) const {
    const int all = hops(from, to);
    const bool climbing = i < all / 2;
    const int level = climbing ? i : all - 1 - i;
    int node = climbing ? from : to;
    int before = 0;  // nodes of lower levels
    for (int l = 0, nodes = size; l < level; ++l) {
      before += nodes;
      nodes = above(nodes);
      node /= arity;
    }
    return (climbing ? 0 : ups()) + before + node;
  }
  constexpr double width(int link) const {
    int node = link % ups();
    double width = 1;
    for (int nodes = size; node >= nodes; nodes = above(nodes)) {
      node -= nodes;
      width *= arity / taper;
    }
    return width;
  }

 private:
  constexpr int above(int nodes) const { return (nodes - 1) / arity + 1; }
  constexpr int ups() const {
    int sum = 0;
    for (int nodes = size; nodes > 1; nodes = above(nodes)) sum += nodes;
    return std::max(sum, 1);
  }
};

static_assert(topology<full_topology> && topology<ring_topology> && topology<torus_topology> &&
              topology<fat_tree_topology>);

}  // namespace tutti
