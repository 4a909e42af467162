// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/product.hpp>
#include <tutti/schedule/ring.hpp>

namespace tutti {

/// Torus of two dimensions: a ring along every row of a ranks, then one along every column of b = p/a. a + b - 2
/// rounds, about 2 sqrt(p) where ranks stand `near_square`, n(p-1)/p bytes per rank, all to the next rank of the row or
/// column; allreduce twice that. Does not keep rank order. A torus of three dimensions is `product<ring, torus<...>,
/// ...>`.
template <class Shape = near_square>
struct torus : product<ring, ring, Shape> {
  static constexpr std::string_view name = detail::template_name<"torus", Shape>;
};

namespace detail {
template <class Shape>
struct remaining_way<torus<Shape>> : remaining_way<product<ring, ring, Shape>> {};
}  // namespace detail

static_assert(proved<torus<>, 1, 8>);

}  // namespace tutti
