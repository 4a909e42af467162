// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/flat.hpp>
#include <tutti/schedule/star.hpp>

namespace tutti {

/// Reduce as a reduce-scatter and a gather: every rank folds its share of the vector and the root collects the shares.
/// Flat and star: 2 rounds, at most 2n(p-1)/p bytes per rank, and the folding is divided among all ranks. Keeps rank
/// order. Source: Thakur, Rabenseifner, Gropp 2005, section 4.4, for the composition.
struct reduce_scatter_gather {
  static constexpr std::string_view name = "reduce_scatter_gather";

  using reduce = then<flat::reduce_scatter, star::gather>;
};

}  // namespace tutti
