// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/canonical_halving.hpp>
#include <tutti/schedule/hypercube.hpp>

#include "prove.hpp"

#include <vector>

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce_scatter, tutti::canonical_halving, 1, 16>);
static_assert(tutti::proved_schedule<allgather, tutti::canonical_halving, 1, 16>);
static_assert(tutti::proved_schedule<allreduce, tutti::canonical_halving, 1, 16>);
static_assert(tutti::schedule_for<allreduce, tutti::canonical_halving>::rank_ordered);
static_assert(tutti::canonical<tutti::schedule_for<reduce_scatter, tutti::canonical_halving>>(13));
static_assert(tutti::canonical<tutti::schedule_for<allreduce, tutti::canonical_halving>>(13));

TEST_CASE("canonical halving is proved for all sizes") {
  CHECK(prove<tutti::canonical_halving>() == 3);
  CHECK(tutti::correct<reduce_scatter, tutti::canonical_halving::reduce_scatter>(129));
}

TEST_CASE("canonical halving costs q rounds, and every rank sends n(p-1)/p bytes") {
  for (int size = 2; size <= 64; ++size) {
    CAPTURE(size);
    const int q = ceil_log2(size);
    const auto scattered = cost<reduce_scatter, tutti::canonical_halving>(size);
    CHECK(scattered.rounds == q);
    CHECK(scattered.sent == size - 1);
    CHECK(scattered.volume == static_cast<long long>(size) * (size - 1));  // so nobody sends less
    CHECK(scattered.received <= size - 1 + q - 1);
    CHECK(scattered.folds == scattered.received);
    const auto gathered = cost<allgather, tutti::canonical_halving>(size);
    CHECK(gathered.rounds == q);
    CHECK(gathered.received == size - 1);
    CHECK(gathered.sent == scattered.received);
    CHECK(cost<allreduce, tutti::canonical_halving>(size).rounds == 2 * q);
  }
}

TEST_CASE("among a power of two ranks it is the hypercube, nearest partners first") {
  using halving = tutti::schedule_for<reduce_scatter, tutti::canonical_halving>;
  using hypercube = tutti::schedule_for<reduce_scatter, tutti::hypercube_doubling>;
  for (const int size : {2, 4, 8, 16, 64}) {
    CAPTURE(size);
    CHECK(cost<reduce_scatter, tutti::canonical_halving>(size) ==
          cost<reduce_scatter, tutti::hypercube_doubling>(size));
    for (int rank = 0; rank < size; ++rank) {
      const place at{rank, size};
      for (int k = 0; k < ceil_log2(size); ++k) {
        std::vector<int> ours;
        std::vector<int> theirs;
        halving{}.round(at, k, [&](auto step) { ours.push_back(step.peer); });
        hypercube{}.round(at, k, [&](auto step) { theirs.push_back(step.peer); });
        CHECK(ours == theirs);
      }
    }
  }
}

TEST_CASE("the last rank plays those that do not exist") {
  // Among 17 ranks the last has 15 more contributions to hand out in the last round: its own, block by block.
  int sent = 0;
  int received = 0;
  tutti::canonical_halving::reduce_scatter{}.round({16, 17}, 4, [&](auto step) {
    CHECK(step.what.count == 1);
    ++(tutti::is_send<decltype(step)> ? sent : received);
  });
  CHECK(sent == 16);
  CHECK(received == 1);
}
