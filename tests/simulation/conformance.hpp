// SPDX-License-Identifier: BSL-1.0
#pragma once

// The conformance suite on the simulated transport, with late and reordered messages, and again on threads and on
// processes: one element type for each collective, few lengths, more numbers of ranks than elsewhere.

#include <tutti/run_processes.hpp>
#include <tutti/run_simulated.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "collective/conformance.hpp"

namespace conformance {

struct simulated {
  static constexpr const char* name = "simulated";
  static constexpr bool shares_memory = true;
  using communicator = tutti::communicator<tutti::simulated>;
  template <class F>
  static void run(int ranks, F&& f) {
    tutti::run_simulated(ranks,
                         {.net = {.ports = 1 + ranks % 2},
                          .seed = static_cast<std::uint64_t>(ranks),
                          .jitter = 2e-6,
                          .reorder = {.probability = 0.1, .delay = 20e-6}},
                         std::forward<F>(f));
  }
};

struct processes {
  static constexpr const char* name = "processes";
  static constexpr bool shares_memory = false;
  using communicator = tutti::communicator<tutti::processes>;
  template <class F>
  static void run(int ranks, F&& f) {
    tutti::run_processes(ranks, std::forward<F>(f));
  }
};

inline constexpr std::array simulated_rank_counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32};

/// Lengths of whole vectors, and of one rank's block: none, fewer and more than ranks, and what is read where it lies
/// or, between processes, travels in pieces.
inline std::vector<std::size_t> simulated_vector_lengths(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  if (ranks > 8) return {p + 1};
  if (ranks == 2 || ranks == 3 || ranks == 5) return {0, p + 1, 1003, 40003};
  const std::set<std::size_t> lengths{0, 1, p + 1, 1003};
  return {lengths.begin(), lengths.end()};
}
inline std::vector<std::size_t> simulated_block_lengths(int ranks) {
  if (ranks > 8) return {2};
  if (ranks == 2 || ranks == 3 || ranks == 5) return {0, 300, 13001};
  return {0, 1, 300};
}

/// `f.template operator()<A>(comm, findings)` for every algorithm of the collective, on so many ranks.
template <tutti::collective C, class Launcher = simulated, class F>
void simulate_every_algorithm(int ranks, F&& f) {
  on_ranks<Launcher>(ranks, [&](typename Launcher::communicator& comm, findings& found) {
    for_each_algorithm<C>(algorithms{}, ranks, [&]<class A>() { f.template operator()<A>(comm, found); });
  });
}

/// On the simulated transport, and for most numbers of ranks again on threads and processes.
struct simulated_cases {
  static constexpr auto& rank_counts = simulated_rank_counts;
  static constexpr auto& vector_lengths = simulated_vector_lengths;
  static constexpr auto& block_lengths = simulated_block_lengths;
  template <tutti::collective C, class F>
  static void on_all(int ranks, F&& f) {
    simulate_every_algorithm<C>(ranks, f);
    if (ranks > 9 && ranks != 13 && ranks != 16) return;
    simulate_every_algorithm<C, threads>(ranks, f);
    simulate_every_algorithm<C, processes>(ranks, f);
  }
};

}  // namespace conformance
