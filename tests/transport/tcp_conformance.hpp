// SPDX-License-Identifier: BSL-1.0
#pragma once

// The conformance suite on tcp, over loopback: one element type for each collective, few lengths.

#include <tutti/run_tcp.hpp>

#include <array>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "collective/by_every_algorithm.hpp"

namespace conformance {

struct tcp {
  static constexpr const char* name = "tcp";
  static constexpr bool shares_memory = true;  // of the test
  using communicator = tutti::communicator<tutti::tcp>;
  template <class F>
  static void run(int ranks, F&& f) {
    tutti::run_tcp(ranks, std::forward<F>(f));
  }
};

struct tcp_cases {
  static constexpr std::array rank_counts{1, 2, 3, 4, 5, 6, 7, 8, 16};
  /// None, fewer and more elements than ranks, and messages that travel in pieces.
  static std::vector<std::size_t> vector_lengths(int ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    if (ranks > 8) return {p + 1};
    if (ranks == 2 || ranks == 3) return {0, p + 1, 1003, 300'003};
    const std::set<std::size_t> lengths{0, 1, p + 1, 1003};
    return {lengths.begin(), lengths.end()};
  }
  static std::vector<std::size_t> block_lengths(int ranks) {
    if (ranks > 8) return {2};
    if (ranks == 2 || ranks == 3) return {0, 300, 270'001};
    return {0, 1, 300};
  }
  template <tutti::collective C, class F>
  static void on_all(int ranks, F&& f) {
    on_ranks<tcp>(ranks, [&](tcp::communicator& comm, findings& found) {
      for_each_algorithm<C>(algorithms{}, ranks, [&]<class A>() { f.template operator()<A>(comm, found); });
    });
  }
};

}  // namespace conformance
