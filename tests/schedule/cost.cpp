// SPDX-License-Identifier: BSL-1.0

// What textbooks say an algorithm costs is what is counted from its schedule. p ranks, q = ceil(log2 p), f = floor(log2
// p), r = p - 2^f ranks too many for a power of two; n is the vector: one block, or p blocks where it is divided.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/cost.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

using namespace tutti;
using enum tutti::collective;

namespace {

template <collective C, class A>
schedule_cost cost(int p) {
  schedule_for<C, A> s{};
  return count(s, p);
}

/// Every size that the algorithm supports, with its logarithms.
template <class A, class F>
void for_each_size(F check) {
  for (int p = 2; p <= 64; ++p) {
    if (!supports<A>(p)) continue;
    CAPTURE(name_of<A>());
    CAPTURE(p);
    const int f = detail::floor_log2(p);
    check(p, detail::ceil_log2(p), f, p - (1 << f));
  }
}

/// A route's reduce-scatter and allgather: p - 1 of p blocks, in `rounds(p)` rounds of `ports(p)` messages.
template <class A, class Rounds>
void check_route(Rounds rounds_of, int fan_in_of_flat = 0) {
  for_each_size<A>([&](int p, int, int, int) {
    const int rounds = rounds_of(p);
    const int fan_in = fan_in_of_flat != 0 ? p - 1 : 1;
    const long long all = static_cast<long long>(p) * (p - 1);
    const schedule_cost scatter = cost<reduce_scatter, A>(p);
    CHECK(scatter.rounds == rounds);
    CHECK(scatter.fan_in == fan_in);
    CHECK(scatter.messages == static_cast<long long>(p) * rounds * fan_in);
    CHECK(scatter.busiest == rounds * fan_in);
    CHECK(scatter.volume == all);
    CHECK(scatter.sent == p - 1);
    CHECK(scatter.received == p - 1);
    CHECK(scatter.folds == p - 1);

    schedule_cost gathered = scatter;
    gathered.folds = 0;
    gathered.scratch = 0;
    CHECK(cost<allgather, A>(p) == gathered);

    schedule_cost both = scatter;
    both.rounds *= 2;
    both.messages *= 2;
    both.busiest *= 2;
    both.volume *= 2;
    both.sent *= 2;
    both.received *= 2;
    CHECK(cost<allreduce, A>(p) == both);
  });
}

}  // namespace

TEST_CASE("parameter server, single master: 2n(p-1) through the master, fan-in p-1") {
  for_each_size<single_master>([](int p, int, int, int) {
    const schedule_cost c = cost<allreduce, single_master>(p);
    CHECK(c.rounds == 2);
    CHECK(c.fan_in == p - 1);
    CHECK(c.messages == 2 * (p - 1));
    CHECK(c.busiest == p - 1);
    CHECK(c.volume == 2 * (p - 1));
    CHECK(c.sent + c.received == 2 * (p - 1));  // both are the master's
    CHECK(c.folds == p - 1);
    CHECK(c.scratch == 1);
  });
}

TEST_CASE("parameter server, a shard for each rank: 2n(p-1)/p for each, 2 rounds, fan-in p-1") {
  check_route<flat>([](int) { return 1; }, 1);
}

TEST_CASE("naive: n p (p-1) in all, n(p-1) for each, 1 round, fan-in p-1") {
  for_each_size<naive>([](int p, int, int, int) {
    const schedule_cost c = cost<allreduce, naive>(p);
    CHECK(c.rounds == 1);
    CHECK(c.fan_in == p - 1);
    CHECK(c.volume == static_cast<long long>(p) * (p - 1));
    CHECK(c.sent == p - 1);
    CHECK(c.received == p - 1);
    CHECK(c.folds == p - 1);
    CHECK(c.scratch == 1);
  });
}

TEST_CASE("ring: 2n(p-1)/p for each, 2(p-1) rounds, fan-in 1") {
  check_route<ring>([](int p) { return p - 1; });
  CHECK(cost<allreduce, ring>(64).scratch == 1);  // of 64 blocks
}

TEST_CASE("circulant, pat, bruck: 2n(p-1)/p for each, 2q rounds, fan-in 1") {
  const auto rounds = [](int p) { return detail::ceil_log2(p); };
  check_route<circulant>(rounds);
  check_route<pat>(rounds);
  check_route<bruck>(rounds);
}

TEST_CASE("hypercube: 2n(p-1)/p for each, 2 log2 p rounds, fan-in 1, for powers of two") {
  const auto rounds = [](int p) { return detail::floor_log2(p); };
  check_route<hypercube_halving>(rounds);
  check_route<hypercube_doubling>(rounds);
}

TEST_CASE("routes need the room of their largest message beside the vector") {
  for_each_size<circulant>([](int p, int q, int, int) {
    CHECK(cost<allreduce, circulant>(p).scratch == p / 2);
    const int top = 1 << (q - 1);  // bruck's first distance
    CHECK(cost<allreduce, bruck>(p).scratch == std::max(p - top, top / 2));
    CHECK(cost<allreduce, pat>(p).scratch == p / 2);
    CHECK(cost<allreduce, flat>(p).scratch == 1);
  });
}

TEST_CASE("tree: 2n(p-1) in all, 2q rounds, fan-in 1, at most q n each way at the root") {
  for_each_size<binomial>([](int p, int q, int, int) {
    const schedule_cost c = cost<allreduce, binomial>(p);
    CHECK(c.rounds == 2 * q);
    CHECK(c.fan_in == 1);
    CHECK(c.messages == 2 * (p - 1));
    CHECK(c.volume == 2 * (p - 1));
    CHECK(c.sent == q);
    CHECK(c.received == q);
    CHECK(c.folds == q);
    CHECK(cost<reduce, binomial>(p).rounds == q);
    CHECK(cost<broadcast, binomial>(p).volume == p - 1);
    CHECK(cost<gather, binomial>(p).received == p - 1);
    CHECK(cost<scatter, binomial>(p).sent == p - 1);
    CHECK(cost<scatter, binomial>(p).rounds == q);
  });
}

TEST_CASE("butterfly: n f for each and n p f in all, f rounds; the fold adds 2 rounds and n") {
  for_each_size<recursive_doubling>([](int p, int, int f, int r) {
    const schedule_cost c = cost<allreduce, recursive_doubling>(p);
    CHECK(c.rounds == f + (r > 0 ? 2 : 0));
    CHECK(c.fan_in == 1);
    CHECK(c.volume == static_cast<long long>(p - r) * f + 2 * r);
    CHECK(c.sent == f + (r > 0 ? 1 : 0));
    CHECK(c.folds == f + (r > 0 ? 1 : 0));
    CHECK(c.scratch == 1);
  });
}

TEST_CASE("recursive multiplying: three messages a round, half as many rounds") {
  for_each_size<recursive_multiplying<4>>([](int p, int, int f, int r) {
    const schedule_cost c = cost<allreduce, recursive_multiplying<4>>(p);
    CHECK(c.rounds == (f + 1) / 2 + (r > 0 ? 2 : 0));
    CHECK(c.sent == f / 2 * 3 + f % 2 + (r > 0 ? 1 : 0));
    CHECK(c.fan_in == (f >= 2 ? 3 : 1));
  });
}

TEST_CASE("halving-doubling: 2n(1-2^-f) for each, 2f rounds; the fold adds 2 rounds and n") {
  for_each_size<halving_doubling>([](int p, int, int f, int r) {
    const schedule_cost c = cost<allreduce, halving_doubling>(p);
    const int n = 1 << f;  // blocks
    CHECK(c.rounds == 2 * f + (r > 0 ? 2 : 0));
    CHECK(c.fan_in == 1);
    CHECK(c.sent == 2 * (n - 1) + (r > 0 ? n : 0));
    CHECK(c.volume == 2LL * n * (n - 1) + 2LL * r * n);
  });
}

TEST_CASE("broadcast of a long vector: less than 2n, 2q rounds") {
  for_each_size<scatter_allgather>([](int p, int q, int, int) {
    const schedule_cost c = cost<broadcast, scatter_allgather>(p);
    CHECK(c.rounds == 2 * q);
    CHECK(c.sent == 2 * (p - 1));
    CHECK(c.received < 2 * p);
  });
}

TEST_CASE("reduce of a long vector: 2 rounds, the folding divided among all") {
  for_each_size<reduce_scatter_gather>([](int p, int, int, int) {
    const schedule_cost c = cost<reduce, reduce_scatter_gather>(p);
    CHECK(c.rounds == 2);
    CHECK(c.fan_in == p - 1);
    CHECK(c.folds == p - 1);
    CHECK(c.received == 2 * (p - 1));
  });
}

TEST_CASE("all-to-all: pairwise n(p-1)/p; bruck n/2 log2 p at powers of two, never more blocks than q p/2") {
  for_each_size<flat>([](int p, int q, int, int r) {
    CHECK(cost<alltoall, flat>(p).sent == p - 1);
    CHECK(cost<alltoall, flat>(p).scratch == p - 1);  // every slot is both sent and overwritten
    const schedule_cost c = cost<alltoall, bruck>(p);
    CHECK(c.rounds == q);
    CHECK(c.fan_in == 1);  // many sets, one message
    CHECK(c.messages == static_cast<long long>(p) * q);
    CHECK(2 * c.sent <= static_cast<long long>(p) * q);
    if (r == 0) CHECK(2 * c.sent == static_cast<long long>(p) * q);
  });
}

TEST_CASE("barrier: q rounds of messages, no bytes") {
  for_each_size<dissemination>([](int p, int q, int, int) {
    schedule_for<barrier, dissemination> s{};
    const schedule_cost c = count(s, p, 0);
    CHECK(c.rounds == q);
    CHECK(c.messages == static_cast<long long>(p) * q);
    CHECK(c.volume == 0);
    CHECK(c.received == 0);
  });
}

TEST_CASE("bytes are counted as the layout divides them") {
  // 10 bytes in 4 blocks are 3, 3, 2, 2: a rank sends all but its own.
  const schedule_cost c = count(schedule_for<reduce_scatter, ring>{}, 4, 10);
  CHECK(c.sent == 8);
  CHECK(c.volume == 4 * 10 - 10);
  CHECK(c.received == 7 + 3 - 2);  // all but what comes from the rank before, whose own block that is
  CHECK(c.scratch == 3);
  // The master's vector is never divided.
  CHECK(count(schedule_for<allreduce, single_master>{}, 5, 1001).sent == 4 * 1001);
  // Even blocks: as many bytes as blocks times their size.
  for (int p = 2; p <= 16; ++p) {
    const schedule_cost blocks = count(schedule_for<allreduce, circulant>{}, p);
    const schedule_cost bytes = count(schedule_for<allreduce, circulant>{}, p, static_cast<std::size_t>(p) * 12);
    CHECK(bytes.volume == 12 * blocks.volume);
    CHECK(bytes.sent == 12 * blocks.sent);
    CHECK(bytes.received == 12 * blocks.received);
    CHECK(bytes.folds == 12 * blocks.folds);
    CHECK(bytes.scratch == 12 * blocks.scratch);
    CHECK(bytes.messages == blocks.messages);
  }
}

namespace {

/// Rank 0 sends two sets to rank 1, one to rank 2 and another to rank 1; rank 2 then folds blocks of its own.
struct several_sets {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = false;
  [[maybe_unused]] static constexpr int vectors = 2;
  constexpr int rounds(place) const { return 1; }
  constexpr int blocks(int) const { return 8; }
  template <class Emit>
  constexpr void round(place at, int, Emit&& emit) const {
    if (at.rank == 0) {
      emit(send_to{1, {0, 1, 2}});
      emit(send_to{1, {4, 1, 1}});
      emit(send_to{2, {0, 1, 1}});
      emit(send_to{1, {5, 1, 1}});
    } else if (at.rank == 1) {
      emit(combine{0, {0, 1, 2}, side::left});
      emit(recv_from{0, {4, 1, 1}});
      emit(recv_from{0, {5, 1, 1}});
    } else {
      emit(recv_from{0, {0, 1, 1}});
      emit(reduce_local{{5, 1, 3}, side::left, 1, 0});
    }
  }
};

}  // namespace

TEST_CASE("consecutive steps to one peer in one direction are one message") {
  const schedule_cost c = count(several_sets{}, 3);
  CHECK(c.messages == 3);
  CHECK(c.busiest == 3);
  CHECK(c.sent == 5);
  CHECK(c.fan_in == 1);
  CHECK(c.scratch == 2);  // what is only stored needs none
}

TEST_CASE("folds of a rank's own blocks are folds and no messages") {
  CHECK(count(several_sets{}, 3).folds == 3);
  CHECK(count(several_sets{}, 3).received == 4);
}

static_assert(count(schedule_for<allreduce, ring>{}, 4).sent == 6);
static_assert(count(schedule_for<allreduce, circulant>{}, 5, 10).volume == 2 * 4 * 10);
