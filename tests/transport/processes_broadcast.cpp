// SPDX-License-Identifier: BSL-1.0

// What a root sends to several is copied once for all of them, not once for each.

#define TUTTI_FAULT_POINTS
#include "transport/processes_run.hpp"

#include "deadline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

TEST_CASE("a vector of many pieces is copied about once for all who get it") {
  const test::alarm_limit limit(test::sanitized ? 240 : 60);
  constexpr std::size_t bytes = std::size_t{8} << 20;
  constexpr std::size_t pieces = bytes >> 16;
  const auto ended = test::outcomes_of_processes(3, [](test::process_communicator& comm, test::rank_report&) {
    std::vector<int> data(bytes / sizeof(int));
    std::uint64_t least = UINT64_MAX;
    for (int call = 0; call < 12; ++call) {
      if (comm.rank() == 0) std::fill(data.begin(), data.end(), call);
      const std::uint64_t before = tutti::fault::hits("staging.copied");
      tutti::broadcast(comm, data, 0);
      least = std::min(least, tutti::fault::hits("staging.copied") - before);
      if (data.front() != call || data.back() != call) throw std::logic_error("wrong bytes");
    }
    // Ranks that are kept from running fall behind and need copies of their own for a while.
    if (comm.rank() == 0 && (least < pieces || least > pieces * 5 / 4))
      throw std::logic_error(std::to_string(least) + " copies of " + std::to_string(pieces) + " pieces");
  });
  CHECK(ended.run == test::outcome{});
}
