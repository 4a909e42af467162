// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/bruck.hpp>

namespace tutti {

/// Dissemination barrier: in round k every rank signals the rank 2^k away. q = ceil(log2 p) rounds for any p, no bytes.
/// It is the allgather of Bruck's route with nothing to carry. Source: Hensgen, Finkel, Manber 1988.
struct dissemination {
  static constexpr std::string_view name = "dissemination";
  using barrier = barrier_of<bruck>;
};

}  // namespace tutti
