// SPDX-License-Identifier: BSL-1.0
#include <tutti/core/host_table.hpp>
#include <tutti/core/host_topology.hpp>
#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/host_traffic.hpp>
#include <tutti/schedule/link_load.hpp>
#include <tutti/schedule/two_level.hpp>
#include <tutti/simulation/simulate.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "prove.hpp"

using namespace schedule_test;
using enum tutti::collective;
using tutti::count_between_hosts;
using tutti::host_map, tutti::host_table, tutti::host_topology;
using tutti::two_level, tutti::flat, tutti::circulant, tutti::binomial, tutti::recursive_doubling;

namespace {

// ---- Proofs ---------------------------------------------------------------------------------------------------------

/// The collective is proved on these hosts, for every root.
template <tutti::collective C, class A>
constexpr bool proved_on(std::initializer_list<int> host_of_rank) {
  using S = tutti::schedule_for<C, A>;
  const host_table hosts(host_of_rank);
  for (int root = 0; root < (tutti::rooted<S> ? hosts.map().ranks() : 1); ++root) {
    if (!tutti::correct<C, S>(hosts.map(), root)) return false;
  }
  return true;
}

template <class A>
constexpr bool all_proved_on(std::initializer_list<int> hosts) {
  return proved_on<broadcast, A>(hosts) && proved_on<scatter, A>(hosts) && proved_on<gather, A>(hosts) &&
         proved_on<reduce, A>(hosts) && proved_on<reduce_scatter, A>(hosts) && proved_on<allgather, A>(hosts) &&
         proved_on<allreduce, A>(hosts) && proved_on<alltoall, A>(hosts) && proved_on<barrier, A>(hosts);
}
static_assert(all_proved_on<two_level<>>({0}));
static_assert(all_proved_on<two_level<>>({0, 0, 0}));
static_assert(all_proved_on<two_level<>>({0, 1, 2}));
static_assert(all_proved_on<two_level<>>({0, 0, 1, 1}));
static_assert(all_proved_on<two_level<>>({0, 1, 1, 0}));
static_assert(all_proved_on<two_level<>>({0, 1, 1, 1}));
static_assert(all_proved_on<two_level<>>({1, 0, 1, 1, 2}));

static_assert(two_level<>::name == "two_level<flat, circulant>");
static_assert(tutti::implements<two_level<flat, tutti::dissemination>, barrier>);
static_assert(!tutti::implements<two_level<flat, tutti::dissemination>, allreduce>);
static_assert(!tutti::implements<two_level<flat, recursive_doubling>, scan>);
// A part works on one vector.
static_assert(tutti::implements<two_level<flat, recursive_doubling>, allreduce>);
static_assert(!tutti::implements<two_level<flat, tutti::census>, allreduce> ||
              tutti::vectors<tutti::schedule_for<allreduce, tutti::census>> == 1);

std::string shown(const host_map& hosts) {
  std::string text = "hosts";
  for (int rank = 0; rank < hosts.ranks(); ++rank) text += ' ' + std::to_string(hosts.host(rank));
  return text;
}

/// Proves what the algorithm does on these hosts, and tells how many proofs that were and how many of them of order.
struct prover {
  int proved = 0;
  int in_order = 0;

  template <tutti::collective C, class A>
  void one(const host_map& hosts) {
    if constexpr (tutti::implements<A, C>) {
      using S = tutti::schedule_for<C, A>;
      for (int root = 0; root < (tutti::rooted<S> ? hosts.ranks() : 1); ++root) {
        for (int segments = 1; segments <= (tutti::segmented<S> ? 3 : 1); ++segments) {
          const tutti::verdict v = tutti::correct<C, S>(hosts, root, segments);
          ++proved;
          if (C == reduce || C == reduce_scatter || C == allreduce)
            in_order += tutti::rank_ordered<S>({root, hosts.ranks(), &hosts}) ? 1 : 0;
          if (!v) {
            FAIL_CHECK(std::string(tutti::name_of<A>())
                       << " " << std::string(tutti::name_of(C)) << ", " << shown(hosts) << ", root " << root << ", "
                       << segments << " segments: fault " << static_cast<int>(v.what) << " at rank " << v.rank);
          }
        }
      }
    }
  }
  template <class A, tutti::collective... C>
  void these(const host_map& hosts) {
    if (tutti::supports<A>(place{0, hosts.ranks(), &hosts})) (one<C, A>(hosts), ...);
  }
  void every_kind(const host_map& hosts) {
    these<two_level<>, broadcast, scatter, gather, reduce, reduce_scatter, allgather, allreduce, alltoall, barrier>(
        hosts);
    these<two_level<flat, flat>, reduce, reduce_scatter, allreduce>(hosts);  // ordered
    // Sets that wrap around, sets with gaps, vectors that are not divided, in segments, and divided twice.
    these<two_level<tutti::k_ary<3>, tutti::bruck>, reduce_scatter, alltoall>(hosts);
    these<two_level<flat, tutti::canonical_halving>, allreduce>(hosts);
    these<two_level<binomial, recursive_doubling>, allreduce>(hosts);
    these<two_level<binomial, tutti::circulant_pipelined>, reduce>(hosts);
    these<two_level<tutti::scatter_allgather, tutti::scatter_allgather>, broadcast>(hosts);
  }
};

/// Each rank's host, for hosts of so many ranks one after the other.
std::vector<int> in_blocks(std::span<const int> sizes) {
  std::vector<int> result;
  for (std::size_t host = 0; host < sizes.size(); ++host)
    result.insert(result.end(), static_cast<std::size_t>(sizes[host]), static_cast<int>(host));
  return result;
}
/// The same hosts, dealt out: one rank to each in turn, as long as it has room.
std::vector<int> dealt_out(std::span<const int> sizes) {
  std::vector<int> left(sizes.begin(), sizes.end());
  std::vector<int> result;
  for (bool some = true; some;) {
    some = false;
    for (std::size_t host = 0; host < left.size(); ++host) {
      if (left[host]-- <= 0) continue;
      result.push_back(static_cast<int>(host));
      some = true;
    }
  }
  return result;
}
std::vector<int> mixed_up(std::vector<int> hosts) {
  // Neither neighbours nor in turn: first and last share a host.
  if (hosts.size() > 2) std::swap(hosts[1], hosts.back());
  return hosts;
}

template <class Visit>
void each_composition(int ranks, Visit visit) {
  for (unsigned cuts = 0; cuts < 1U << (ranks - 1); ++cuts) {
    std::vector<int> sizes{1};
    for (int i = 0; i + 1 < ranks; ++i) {
      if ((cuts >> i & 1) != 0) {
        sizes.push_back(1);
      } else {
        ++sizes.back();
      }
    }
    visit(std::span<const int>(sizes));
  }
}

}  // namespace

TEST_CASE("two levels are proved on all hosts of up to 8 ranks, wherever these stand, for every root") {
  prover p;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    each_composition(ranks, [&](std::span<const int> sizes) {
      for (const std::vector<int>& hosts : {in_blocks(sizes), dealt_out(sizes), mixed_up(in_blocks(sizes))})
        p.every_kind(host_table(std::span<const int>(hosts)).map());
    });
  }
  MESSAGE(p.proved << " proofs, " << p.in_order << " of them of rank order");
  CHECK(p.proved > 50'000);
  CHECK(p.in_order > 3'000);
}

TEST_CASE("and on larger ones") {
  prover p;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {7, 8}, {8, 1}, {1, 1, 6}, {4, 4, 4, 4}, {5, 1, 3, 2}, {3, 3, 3, 3, 3}, {16, 1, 4}, {1, 16}}) {
    for (const std::vector<int>& hosts : {in_blocks(sizes), dealt_out(sizes), mixed_up(in_blocks(sizes))})
      p.every_kind(host_table(std::span<const int>(hosts)).map());
  }
  CHECK(p.proved > 1000);
}

TEST_CASE("reductions keep rank order where ranks of a host are neighbours and both parts keep it") {
  const auto ordered = []<tutti::collective C, class A>(std::initializer_list<int> host_of_rank, int root) {
    const host_table hosts(host_of_rank);
    return tutti::rank_ordered<tutti::schedule_for<C, A>>({root, hosts.map().ranks(), &hosts.map()});
  };
  using kept = two_level<flat, flat>;
  for (const int root : {0, 2, 3}) {
    CHECK(ordered.operator()<reduce, kept>({0, 0, 1, 1}, root));
    CHECK(ordered.operator()<reduce, kept>({0, 1, 1, 1}, root));
    CHECK_FALSE(ordered.operator()<reduce, kept>({0, 1, 0, 1}, root));
    CHECK_FALSE(ordered.operator()<reduce, two_level<>>({0, 0, 1, 1}, root));
  }
  CHECK(ordered.operator()<allreduce, kept>({0, 0, 1, 1}, 0));
  CHECK(ordered.operator()<allreduce, two_level<binomial, recursive_doubling>>({0, 1, 1, 1}, 0));
  CHECK(ordered.operator()<reduce_scatter, kept>({2, 2, 1}, 0));
  CHECK_FALSE(ordered.operator()<allreduce, kept>({0, 1, 0, 1}, 0));
  CHECK_FALSE(ordered.operator()<allreduce, two_level<circulant, flat>>({0, 0, 0, 1}, 0));
  // A type cannot tell, and no shape of hosts makes it the canonical tree.
  CHECK_FALSE(tutti::schedule_for<allreduce, kept>::rank_ordered);
  CHECK_FALSE(tutti::canonical<tutti::schedule_for<allreduce, two_level<binomial, recursive_doubling>>>(4));
  CHECK(tutti::schedule_for<broadcast, kept>::rank_ordered);
}

TEST_CASE("both parts must support their numbers of ranks") {
  using powers = two_level<tutti::hypercube_doubling, flat>;
  const auto supported = []<class A>(std::initializer_list<int> host_of_rank) {
    const host_table hosts(host_of_rank);
    return tutti::supports<A>(place{0, hosts.map().ranks(), &hosts.map()});
  };
  CHECK(supported.operator()<powers>({0, 0, 1, 1, 2, 2}));
  CHECK(supported.operator()<powers>({0, 0, 1, 2, 2}));
  CHECK_FALSE(supported.operator()<powers>({0, 0, 0, 1}));
  CHECK(supported.operator()<two_level<flat, tutti::hypercube_doubling>>({0, 0, 0, 1}));
  CHECK_FALSE(supported.operator()<two_level<flat, tutti::hypercube_doubling>>({0, 1, 2, 2}));
  CHECK(tutti::supports<powers>(4));
  CHECK_FALSE(tutti::supports<powers>(6));
}

// ---- Mutants --------------------------------------------------------------------------------------------------------

namespace {

enum class change { drop, other_block, other_peer, store };

/// `S` with one step spoiled: the n-th of all that one rank has.
template <class S>
struct spoiled {
  static constexpr bool rank_ordered = false;
  static constexpr bool overlapping = true;

  S original;
  int rank;
  int nth;
  change how;

  int rounds(place at) const { return original.rounds(at); }
  int blocks(int size) const { return original.blocks(size); }
  int blocks(place at) const { return tutti::blocks_of(original, at); }
  int destination(place at, int slot) const { return original.destination(at, slot); }
  int source(place at, int slot) const { return original.source(at, slot); }
  template <class Emit>
  void round(place at, int k, Emit&& emit) const {
    int before = 0;
    if (at.rank == rank) {
      for (int i = 0; i < k; ++i) original.round(at, i, [&](const auto&) { ++before; });
    }
    original.round(at, k, [&](auto step) {
      using step_type = decltype(step);
      if (at.rank != rank || before++ != nth) return emit(step);
      if constexpr (!tutti::is_local<step_type>) {
        if (how == change::drop) return;
        if (how == change::other_block) ++step.what.first;
        if (how == change::other_peer) step.peer = (step.peer + 1) % at.size;
        if constexpr (tutti::is_combine<step_type>) {
          if (how == change::store) return emit(tutti::recv_from{step.peer, step.what});
        }
        emit(step);
      }
    });
  }
};

/// How many mutants are found wrong; all must be.
template <tutti::collective C, class A>
int rejected_on(const host_map& hosts) {
  using S = tutti::schedule_for<C, A>;
  int rejected = 0;
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    const place at{rank, hosts.ranks(), &hosts};
    const S s = tutti::detail::make_schedule<S>(0);
    int steps = 0;
    std::vector<bool> folds;
    for (int k = 0; k < s.rounds(at); ++k) {
      s.round(at, k, [&](auto step) {
        ++steps;
        folds.push_back(tutti::is_combine<decltype(step)>);
      });
    }
    for (int nth = 0; nth < steps; ++nth) {
      for (const change how : {change::drop, change::other_block, change::other_peer, change::store}) {
        if (how == change::store && !folds[static_cast<std::size_t>(nth)]) continue;
        if (how == change::other_block && tutti::blocks_of(s, at) == 1) continue;
        const bool found = !tutti::verify<C>(spoiled<S>{s, rank, nth, how}, hosts.ranks(), 0, &hosts);
        CHECK_MESSAGE(found, std::string(tutti::name_of(C)), ", ", shown(hosts), ", rank ", rank, ", step ", nth);
        rejected += found ? 1 : 0;
      }
    }
  }
  return rejected;
}

}  // namespace

TEST_CASE("every spoiled step is found") {
  int rejected = 0;
  for (const std::vector<int>& of : std::vector<std::vector<int>>{{0, 0, 1, 1}, {0, 1, 2, 0, 2, 1}, {0, 1, 1, 1, 2}}) {
    const host_table hosts{std::span<const int>(of)};
    rejected += rejected_on<allreduce, two_level<>>(hosts.map());
    rejected += rejected_on<reduce_scatter, two_level<>>(hosts.map());
    rejected += rejected_on<allgather, two_level<>>(hosts.map());
    rejected += rejected_on<alltoall, two_level<>>(hosts.map());
    rejected += rejected_on<gather, two_level<flat, flat>>(hosts.map());
  }
  CHECK(rejected > 500);
}

// ---- What goes between hosts ----------------------------------------------------------------------------------------

namespace {

struct shape {
  std::vector<int> sizes;
  std::vector<int> host_of_rank;

  long long ranks() const { return static_cast<long long>(host_of_rank.size()); }
  long long hosts() const { return static_cast<long long>(sizes.size()); }
  long long ranks_on(std::size_t host) const { return sizes[host]; }
  long long fewest() const { return *std::min_element(sizes.begin(), sizes.end()); }
  bool even() const { return fewest() == *std::max_element(sizes.begin(), sizes.end()); }
  /// Bytes of a vector that all divide evenly.
  long long bytes() const { return 16 * ranks() * hosts(); }
  int rounds_between() const { return ceil_log2(static_cast<int>(hosts())); }
};

std::vector<shape> shapes() {
  std::vector<shape> result;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {1, 3}, {7, 8}, {1, 1, 6}, {8, 1}, {5, 1, 3, 2}, {2, 2}, {3, 3, 3}, {4, 4, 4, 4}, {1, 1, 1, 1, 1}}) {
    result.push_back({sizes, in_blocks(sizes)});
    result.push_back({sizes, dealt_out(sizes)});
  }
  return result;
}

template <tutti::collective C, class A>
tutti::host_traffic between(const host_map& hosts, long long bytes, int root = 0) {
  const auto s = tutti::detail::make_schedule<tutti::schedule_for<C, A>>(root);
  return count_between_hosts(s, hosts, static_cast<std::size_t>(bytes));
}

}  // namespace

TEST_CASE("between hosts go as few bytes as can, and as few messages as the parts between hosts have") {
  for (const shape& of : shapes()) {
    const host_table table{std::span<const int>(of.host_of_rank)};
    const host_map& hosts = table.map();
    CAPTURE(shown(hosts));
    const long long n = of.bytes();
    const long long p = of.ranks();
    const long long h = of.hosts();
    const long long q = of.rounds_between();
    const long long talking = of.even() ? p : h;

    const auto sum = between<allreduce, two_level<>>(hosts, n);
    CHECK(sum.sent == 2 * n * (h - 1) / h);
    CHECK(sum.received == 2 * n * (h - 1) / h);
    CHECK(sum.volume == 2 * n * (h - 1));
    CHECK(sum.messages == 2 * q * talking);

    const auto divided = between<reduce_scatter, two_level<>>(hosts, n);
    CHECK(divided.volume == n * (h - 1));
    CHECK(divided.sent == n * (p - of.fewest()) / p);
    CHECK(divided.messages == q * talking);
    const auto joined = between<allgather, two_level<>>(hosts, n);
    CHECK(joined.volume == n * (h - 1));
    CHECK(joined.received == n * (p - of.fewest()) / p);
    CHECK(joined.messages == q * talking);
    CHECK(between<barrier, two_level<>>(hosts, 0).messages == q * talking);

    long long exchanged = 0;
    long long busiest = 0;
    for (std::size_t host = 0; host < of.sizes.size(); ++host) {
      const long long mine = of.ranks_on(host) * (p - of.ranks_on(host));
      exchanged += mine;
      busiest = std::max(busiest, mine);
    }
    const auto swapped = between<alltoall, two_level<flat, flat>>(hosts, n);
    CHECK(swapped.volume == exchanged * n / p);
    CHECK(swapped.sent == busiest * n / p);
    CHECK(swapped.received == busiest * n / p);
    CHECK(swapped.messages == (of.even() ? p * (h - 1) : exchanged));

    for (int root = 0; root < hosts.ranks(); ++root) {
      const long long with_root = of.ranks_on(static_cast<std::size_t>(hosts.host(root)));
      for (const auto& told :
           {between<broadcast, two_level<>>(hosts, n, root), between<reduce, two_level<>>(hosts, n, root)}) {
        CHECK(told.volume == n * (h - 1));
        CHECK(told.messages == h - 1);
      }
      CHECK(between<broadcast, two_level<>>(hosts, n, root).received == n);
      CHECK(between<reduce, two_level<>>(hosts, n, root).sent == n);
      const auto gathered = between<gather, two_level<flat, flat>>(hosts, n, root);
      const auto scattered = between<scatter, two_level<flat, flat>>(hosts, n, root);
      CHECK(gathered.received == n * (p - with_root) / p);
      CHECK(scattered.sent == gathered.received);
      CHECK(gathered.volume == gathered.received);
      CHECK(gathered.messages == h - 1);
      CHECK(scattered.messages == h - 1);
    }
  }
}

TEST_CASE("costs, link load and simulation see hosts") {
  const host_table table{std::span<const int>(in_blocks(std::vector<int>{4, 4, 4, 4}))};
  const host_map& hosts = table.map();
  using two = tutti::schedule_for<allreduce, two_level<>>;
  using one = tutti::schedule_for<allreduce, circulant>;
  constexpr std::size_t n = 16384;
  // A quarter of the sum is one rank's part; of that it sends and gets three quarters, twice.
  const tutti::schedule_cost cost = tutti::count(two{}, hosts, n);
  CHECK(cost.rounds == 2 + 2 * 2);
  CHECK(cost.sent == 3 * n / 2 + 3 * n / 8);
  CHECK(cost.fan_in == 3);
  CHECK(tutti::count(two{}, hosts).volume == 16 * 2 * (3 * 4 + 3));

  const host_topology wires{&hosts};
  CHECK(tutti::link_load(two{}, wires, n) == 3 * n / 2);
  CHECK(tutti::link_load(two{}, wires, n) == count_between_hosts(two{}, hosts, n).sent);
  CHECK(tutti::link_load(one{}, wires, n) == n * (8 * 4 + 4 * 4 + 2 * 2 + 1) / 8);
  CHECK(tutti::link_load(two{}, host_topology{&hosts, 4}, n) == 3 * n / 8);

  const tutti::network net{.latency = 10e-6, .byte = 1e-9};
  const tutti::simulation_result of_two = tutti::simulate(two{}, wires, n, net);
  CHECK(of_two.bytes == cost.volume);
  CHECK(of_two.messages == cost.messages);
  CHECK(of_two.makespan < tutti::simulate(one{}, wires, n, net).makespan);
}
