// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/fold.hpp>
#include <tutti/schedule/hypercube.hpp>

namespace tutti {

/// Rabenseifner's allreduce: reduce-scatter and allgather on the hypercube, nearest partners first so that rank order
/// is kept, with a fold to any p. 2f rounds and 2n(1-2^-f) bytes per rank, f = floor(log2 p); two rounds and n bytes
/// more unless p is a power of two. For long vectors. Source: Thakur, Rabenseifner, Gropp 2005, section 4.5.
struct halving_doubling {
  static constexpr std::string_view name = "halving_doubling";
  using allreduce = folded<allreduce_of<hypercube_doubling>>;
};

}  // namespace tutti
