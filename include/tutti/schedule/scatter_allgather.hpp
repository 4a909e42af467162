// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/binomial.hpp>
#include <tutti/schedule/circulant.hpp>
#include <tutti/schedule/derive.hpp>

namespace tutti {

/// Broadcast of a long vector: binomial scatter, then circulant allgather. 2q rounds, q = ceil(log2 p), and less than
/// 2n bytes per rank, any root. Source: van de Geijn; Thakur, Rabenseifner, Gropp 2005, section 4.2.
struct scatter_allgather {
  static constexpr std::string_view name = "scatter_allgather";
  using broadcast = then<binomial::scatter, allgather_of<circulant>>;
};

}  // namespace tutti
