// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/k_nomial.hpp>

#include <string_view>

namespace tutti {

/// Binomial trees over aligned groups of ranks, q = ceil(log2 p) rounds for any root: `k_nomial` of 2, in which
/// neighbouring groups meet in one edge between their leaders, so that reduce folds along the canonical tree. Reduce
/// and broadcast: the root handles up to q n bytes; allreduce does both. Gather and scatter: n(p-1)/p. For short
/// vectors.
struct binomial : k_nomial<2> {
  static constexpr std::string_view name = "binomial";
};

}  // namespace tutti
