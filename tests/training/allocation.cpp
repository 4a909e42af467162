// SPDX-License-Identifier: BSL-1.0
#include "counted_new.hpp"
#include "trainer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

TEST_CASE("steps allocate nothing once they have been done once; not under a sanitizer that allocates" *
          doctest::skip(!counting)) {
  const auto allocations_of = [](auto& comm, auto rule, auto sync) {
    std::vector<float> weights(5000, 1.0F);
    std::vector<float> gradient(weights.size());
    tutti::sgd optimizer(comm, weights, rule, sync);
    const auto step = [&](int number) {
      // Rank 1 has no samples in every second step.
      optimizer.step(gradient, comm.rank() == 1 && number % 2 == 0 ? 0 : 3);
    };
    for (int number = 0; number < 3; ++number) step(number);
    const std::size_t before = allocations;
    for (int number = 0; number < 20; ++number) step(number);
    return allocations - before;
  };
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    std::vector<std::size_t> of_rank(static_cast<std::size_t>(ranks));
    tutti::run(ranks, [&](auto& comm) {
      std::size_t& sum = of_rank[static_cast<std::size_t>(comm.rank())];
      sum += allocations_of(comm, tutti::plain{.rate = 0.1}, tutti::all_reduce<>{});
      sum += allocations_of(comm, tutti::momentum{.rate = 0.1}, tutti::all_reduce<tutti::ring>{});
      sum += allocations_of(comm, tutti::nesterov{.rate = 0.1}, tutti::parameter_server<>{});
      sum += allocations_of(comm, tutti::momentum{.rate = 0.1}, tutti::parameter_server<tutti::single_master>{});
    });
    CHECK(of_rank == std::vector<std::size_t>(static_cast<std::size_t>(ranks), 0));
  }
}
