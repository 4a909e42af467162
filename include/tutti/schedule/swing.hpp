// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/bine.hpp>
#include <tutti/schedule/plus_one.hpp>

namespace tutti {

/// Swing for any p: `bine` where p is even; where it is odd, `bine` among p-1 ranks, with which the last one exchanges
/// single blocks meanwhile. ceil(log2 p) rounds at even p, ceil(log2(p-1)) at odd p (one for three ranks), n(p-1)/p
/// bytes per rank; allreduce twice that. Does not keep rank order. All collectives but all-to-all, whose blocks have no
/// place to wait at an odd number of ranks; `bine` has it for even p. Source: Swing, De Sensi et al., arXiv 2401.09356.
struct swing : plus_one<bine> {
  static constexpr std::string_view name = "swing";
};

}  // namespace tutti
