// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/network.hpp>

#include <string>

namespace planning {

// Charts of allreduce on a network, each an SVG picture.

/// Time against message size, a line for each algorithm.
std::string time_by_bytes(const tutti::network& net);

/// Time of 8 bytes against the number of ranks, up to 2^20, for a few algorithms.
std::string latency_by_ranks(const tutti::network& net);

/// Which algorithm is fastest at each number of ranks and each message size.
std::string fastest_by_both(const tutti::network& net);

}  // namespace planning
