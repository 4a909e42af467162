// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/derive.hpp>
#include <tutti/schedule/shape.hpp>
#include <tutti/schedule/template_name.hpp>

namespace tutti {

/// Two levels: ranks stand in rows (`Shape`, see shape.hpp); `Inner` runs within every row, on the blocks of all rows,
/// then `Outer` among the ranks that have the same place in their rows. With rows of a ranks and b = p/a rows: the
/// rounds of `Inner` for a and of `Outer` for b ranks, n(p-1)/p bytes per rank, of which n(a-1)/a stay within the row.
/// A message within a row is several sets, one for each place in a row that it goes to. For hosts and for grids: see
/// `torus`. Products can be parts of products. Keeps rank order if both routes do.
template <route Inner, route Outer, class Shape = near_square>
struct product {
  static constexpr std::string_view name = detail::template_name<"product", Inner, Outer, Shape>;
  using group_type =
      direct_product<typename detail::route_group<Inner>::type, typename detail::route_group<Outer>::type, Shape>;
  static constexpr bool rank_ordered =
      detail::route_view<Inner>::rank_ordered && detail::route_view<Outer>::rank_ordered;
  static constexpr bool supports(int size) {
    const int row = Shape::row(size);
    return row != 0 && tutti::supports<Inner>(row) && tutti::supports<Outer>(size / row);
  }
  static constexpr int rounds(int size) {
    const int row = Shape::row(size);
    return Inner::rounds(row) + Outer::rounds(size / row);
  }
  static constexpr int ports(int size, int k) {
    const int row = Shape::row(size);
    const int outer_round = k - Inner::rounds(row);
    if (outer_round >= 0) return detail::route_view<Outer>::ports(size / row, outer_round);
    using inner = detail::route_view<Inner>;
    int sets = 0;
    for (int port = 0; port < inner::ports(row, k); ++port) sets += sets_of(inner::entry(row, k, port), size / row);
    return sets;
  }
  static constexpr hop entry(int size, int k, int port) {
    const int row = Shape::row(size);
    const int rows = size / row;
    const int outer_round = k - Inner::rounds(row);
    if (outer_round >= 0) {
      const auto [by, what] = detail::route_view<Outer>::entry(rows, outer_round, port);
      return {row * by, {row * what.first, row * what.stride, what.count}};
    }
    for (int inner_port = 0;; ++inner_port) {
      const hop h = detail::route_view<Inner>::entry(row, k, inner_port);
      const int sets = sets_of(h, rows);
      if (port >= sets) {
        port -= sets;
      } else if (rows == 1) {
        return h;
      } else {
        return {h.by, {h.what.at(port, row), row, rows}};
      }
    }
  }

 private:
  static constexpr int sets_of(const hop& h, int rows) { return rows == 1 ? 1 : h.what.count; }
};

namespace detail {
template <class Inner, class Outer, class Shape>
struct remaining_way<product<Inner, Outer, Shape>> {
  static constexpr bool nested(int size) {
    const int row = Shape::row(size);
    return nested_ways<Inner>(row) && nested_ways<Outer>(size / row);
  }
  static constexpr int before(int size, int k, int h) {
    const int row = Shape::row(size);
    const int outer_round = k - Inner::rounds(row);
    if (outer_round >= 0) return row * remaining_way<Outer>::before(size / row, outer_round, h / row);
    return remaining_way<Inner>::before(row, k, h % row) + h / row * row;
  }
};
}  // namespace detail

}  // namespace tutti
