// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// What a simulation came to.
struct simulation_result {
  double makespan = 0;     ///< seconds from the start of all ranks until the last of them has finished
  int rounds = 0;          ///< of the rank that has most
  long long messages = 0;  ///< of all ranks
  long long bytes = 0;     ///< sent by all ranks
  long long busiest = 0;   ///< bytes sent by the rank that sends most
  long long events = 0;    ///< that were simulated

  friend constexpr bool operator==(const simulation_result&, const simulation_result&) = default;
};

}  // namespace tutti
