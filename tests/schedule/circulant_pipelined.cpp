// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/circulant_pipelined.hpp>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;

static_assert(tutti::proved_schedule<reduce, tutti::circulant_pipelined, 1, 8>);
static_assert(tutti::proved_schedule<broadcast, tutti::circulant_pipelined, 1, 8>);
static_assert(tutti::proved_schedule<allreduce, tutti::circulant_pipelined, 1, 16>);

TEST_CASE("the pipelined circulant is proved for all sizes, roots and numbers of segments") {
  CHECK(prove<tutti::circulant_pipelined>() == 3);
}

TEST_CASE("the search for the schedule is right where simpler ones are not") {
  for (const int size : {33, 65, 66, 67, 69, 73, 81, 129, 131}) {
    CAPTURE(size);
    CHECK(tutti::correct<broadcast, tutti::circulant_pipelined::broadcast>(size, 0, 9));
    CHECK(tutti::correct<reduce, tutti::circulant_pipelined::reduce>(size, 0, 9));
  }
}

TEST_CASE("the pipelined circulant costs k - 1 + q rounds, and n bytes per rank with one port") {
  for (int size = 2; size <= 64; ++size) {
    const int q = ceil_log2(size);
    for (const int segments : {1, 2, 7}) {
      CAPTURE(size);
      CAPTURE(segments);
      const int rounds = segments - 1 + q;
      const long long volume = static_cast<long long>(segments) * (size - 1);
      const auto up = tutti::count(tutti::circulant_pipelined::reduce{size / 2, segments}, size);
      const auto down = tutti::count(tutti::circulant_pipelined::broadcast{size / 2, segments}, size);
      const auto both = tutti::count(tutti::circulant_pipelined::allreduce{segments}, size);
      CHECK(up.rounds == rounds);
      CHECK(up.fan_in == 1);
      CHECK(up.volume == volume);
      CHECK(up.sent == segments);
      CHECK(up.folds == rounds);  // of the root, which has something to do in every round
      CHECK(down.rounds == rounds);
      CHECK(down.fan_in == 1);
      CHECK(down.volume == volume);
      CHECK(down.received == segments);
      CHECK(down.sent == rounds);
      CHECK(both.rounds == 2 * rounds);
      CHECK(both.volume == 2 * volume);
    }
  }
}

TEST_CASE("in q rounds a rank gets its base block and all but one of the q before") {
  using tutti::detail::circulant_receptions;
  for (const int size : {2, 3, 4, 17, 100, 1000, 1023, 1024, 1025, 4097}) {
    CAPTURE(size);
    const int q = ceil_log2(size);
    bool right = true;
    for (int rank = 1; rank < size; ++rank) {
      circulant_receptions receptions{rank, size};
      unsigned got = 0;  // bit i + q for block i
      for (int k = 0; k < q; ++k) {
        const int block = receptions.block(k);
        right &= block >= -q && block < q;
        got |= 1u << (block + q);
        // It comes from the root, or from a rank that got it before, in these rounds or the last q.
        const int from = tutti::modulo(rank - circulant_receptions::skip(k, size), size);
        if (from == 0) {
          right &= block == k;
          continue;
        }
        circulant_receptions theirs{from, size};
        bool has = false;
        for (int i = 0; i < q; ++i) has |= (i < k && theirs.block(i) == block) || theirs.block(i) == block + q;
        right &= has;
      }
      const unsigned base = got >> q;
      const unsigned before = got & ((1u << q) - 1);
      right &= tutti::detail::is_power_of_two(static_cast<int>(base));
      right &= (before | base) == (1u << q) - 1 && (before & base) == 0;
    }
    CHECK(right);
  }
}
