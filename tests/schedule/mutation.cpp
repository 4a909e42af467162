// SPDX-License-Identifier: BSL-1.0
#include <tutti/schedule/algorithms.hpp>
#include <tutti/schedule/proof.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using enum tutti::collective;
using tutti::hop;
using tutti::place;

namespace {

/// A route read from a table, so that a test can spoil it.
template <class Group, bool Ordered = false>
struct tabled_route {
  static constexpr std::string_view name = "tabled";
  using group_type = Group;
  static constexpr bool rank_ordered = Ordered;
  static inline std::vector<std::vector<hop>> table;

  static int rounds(int) { return static_cast<int>(table.size()); }
  static int ports(int, int k) { return static_cast<int>(table[static_cast<std::size_t>(k)].size()); }
  static hop entry(int, int k, int port) { return table[static_cast<std::size_t>(k)][static_cast<std::size_t>(port)]; }
};

using table_of_hops = std::vector<std::vector<hop>>;

template <class R>
table_of_hops table_of(int size) {
  using view = tutti::detail::route_view<R>;
  table_of_hops table;
  for (int k = 0; k < R::rounds(size); ++k) {
    table.emplace_back();
    for (int port = 0; port < view::ports(size, k); ++port) table.back().push_back(view::entry(size, k, port));
  }
  return table;
}

/// Each way to spoil one hop or round of a route.
std::vector<table_of_hops> mutants_of(const table_of_hops& good) {
  std::vector<table_of_hops> mutants;
  const auto with = [&](auto change) {
    table_of_hops spoiled = good;
    change(spoiled);
    mutants.push_back(std::move(spoiled));
  };
  for (std::size_t k = 0; k < good.size(); ++k) {
    with([&](table_of_hops& t) { t.erase(t.begin() + static_cast<std::ptrdiff_t>(k)); });
    with([&](table_of_hops& t) { t.insert(t.begin() + static_cast<std::ptrdiff_t>(k), good[k]); });
    if (k + 1 < good.size()) with([&](table_of_hops& t) { std::swap(t[k], t[k + 1]); });
    for (std::size_t port = 0; port < good[k].size(); ++port) {
      with([&](table_of_hops& t) { t[k].erase(t[k].begin() + static_cast<std::ptrdiff_t>(port)); });
      for (const int by : {-1, 1}) {
        with([&](table_of_hops& t) { t[k][port].by += by; });
        with([&](table_of_hops& t) { t[k][port].what.first += by; });
        if (good[k][port].what.count + by >= 0) with([&](table_of_hops& t) { t[k][port].what.count += by; });
        if (good[k][port].what.count > 1) with([&](table_of_hops& t) { t[k][port].what.stride += by; });
      }
    }
  }
  return mutants;
}

struct tally {
  int rejected = 0;
  int equivalent = 0;
};

/// The O(p) proof and the symbolic execution must agree on every mutant.
template <class R>
tally try_mutants(int size) {
  using group_type = typename tutti::detail::route_view<R>::group_type;
  using mutant = tabled_route<group_type>;
  tally t;
  mutant::table = table_of<R>(size);
  REQUIRE(tutti::valid_route<mutant>(size));
  for (const table_of_hops& spoiled : mutants_of(mutant::table)) {
    mutant::table = spoiled;
    const bool executes = bool{tutti::correct<reduce_scatter, tutti::reduce_scatter_of<mutant>>(size)} &&
                          bool{tutti::correct<allgather, tutti::allgather_of<mutant>>(size)} &&
                          bool{tutti::correct<alltoall, tutti::alltoall_of<mutant>>(size)};
    CHECK(tutti::valid_route<mutant>(size) == executes);
    ++(executes ? t.equivalent : t.rejected);
  }
  return t;
}

}  // namespace

TEST_CASE("spoiled routes are rejected, by the O(p) proof and by execution alike") {
  tally all;
  const auto add = [&](tally t) {
    all.rejected += t.rejected;
    all.equivalent += t.equivalent;
  };
  for (const int size : {2, 3, 5, 6, 8, 13}) {
    add(try_mutants<tutti::ring>(size));
    add(try_mutants<tutti::circulant>(size));
    add(try_mutants<tutti::bruck>(size));
    add(try_mutants<tutti::pat>(size));
    add(try_mutants<tutti::flat>(size));
    add(try_mutants<tutti::k_ary<3>>(size));
    add(try_mutants<tutti::bidirectional_ring>(size));
    add(try_mutants<tutti::torus<>>(size));
    add(try_mutants<tutti::product<tutti::flat, tutti::circulant>>(size));
  }
  for (const int size : {2, 4, 6, 8, 10, 14}) {
    add(try_mutants<tutti::neighbour_exchange>(size));
    add(try_mutants<tutti::bine>(size));
  }
  for (const int size : {2, 4, 8, 16}) {
    add(try_mutants<tutti::hypercube_halving>(size));
    add(try_mutants<tutti::hypercube_doubling>(size));
  }
  MESSAGE(all.rejected << " mutants rejected; " << all.equivalent << " others are routes too");
  CHECK(all.rejected >= 1000);
}

namespace {

enum class change {
  drop,
  repeat,
  other_peer,
  other_block,
  fewer_blocks,
  store_not_fold,
  other_side,
  other_vector,
  skip_round,
};

/// `S` with one step of one rank changed, or one round left out.
template <class S>
struct mutated {
  static constexpr bool rank_ordered = S::rank_ordered;
  static constexpr bool rank_ordered_at(place at) { return tutti::rank_ordered<S>(at); }
  static constexpr bool overlapping = S::overlapping;
  static constexpr int vectors = tutti::vectors<S>;
  static constexpr int result = tutti::result_vector<S>;
  static constexpr bool uniform = tutti::uniform<S>;
  static constexpr bool canonical(int size) { return tutti::canonical<S>(size); }

  S original;
  int rank;
  int round_number;
  int step_number;
  change how;

  int rounds(place at) const { return original.rounds(at) - (skips(at) ? 1 : 0); }
  int blocks(int size) const { return original.blocks(size); }
  int destination(place at, int slot) const requires requires { original.destination(at, slot); }
  { return original.destination(at, slot); }
  int source(place at, int slot) const requires requires { original.source(at, slot); }
  { return original.source(at, slot); }
  template <class Emit>
  void round(place at, int k, Emit&& emit) const {
    if (skips(at) && k >= round_number) ++k;
    int n = 0;
    original.round(at, k, [&](auto step) {
      if (at.rank != rank || k != round_number || n++ != step_number) return emit(step);
      using step_type = decltype(step);
      if (how == change::drop) return;
      if (how == change::repeat) emit(step);
      if constexpr (!tutti::is_local<step_type>) {
        if (how == change::other_peer) step.peer = (step.peer + 1) % at.size;
      }
      if (how == change::other_block) ++step.what.first;
      if (how == change::fewer_blocks) --step.what.count;
      if constexpr (tutti::is_combine<step_type>) {
        if (how == change::store_not_fold) return emit(tutti::recv_from{step.peer, step.what, step.vector});
      }
      if constexpr (tutti::is_combine<step_type> || tutti::is_local<step_type>) {
        if (how == change::other_side) {
          step.operand = step.operand == tutti::side::left ? tutti::side::right : tutti::side::left;
        }
      }
      if constexpr (tutti::is_local<step_type>) {
        if (how == change::other_vector) step.into = (step.into + 1) % tutti::vectors<S>;
      } else {
        if (how == change::other_vector) step.vector = (step.vector + 1) % tutti::vectors<S>;
      }
      emit(step);
    });
  }

 private:
  bool skips(place at) const { return at.rank == rank && how == change::skip_round; }
};

/// Spoils every step of every rank in every way; returns how many wrong schedules there were, all of them rejected.
template <tutti::collective C, class A>
int spoil(int size, int root = 0, int segments = 1) {
  using S = tutti::schedule_for<C, A>;
  const S good = tutti::detail::make_schedule<S>(root, segments);
  constexpr bool several_vectors = tutti::vectors<S> != 1;
  int tried = 0;
  const auto reject = [&](int rank, int k, int n, change how) {
    ++tried;
    const tutti::verdict v = tutti::verify<C>(mutated<S>{good, rank, k, n, how}, size, root);
    if (v) {
      FAIL_CHECK(std::string(tutti::name_of<A>())
                 << " " << std::string(tutti::name_of(C)) << " rank " << rank << " round " << k << " step " << n
                 << " change " << static_cast<int>(how));
    }
  };
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    for (int k = 0; k < good.rounds(at); ++k) {
      int n = 0;
      good.round(at, k, [&](auto step) {
        reject(rank, k, n, change::drop);
        if (C != barrier) reject(rank, k, n, change::repeat);
        if (size > 2 && !tutti::is_local<decltype(step)>) reject(rank, k, n, change::other_peer);
        if (step.what.count < good.blocks(size)) reject(rank, k, n, change::other_block);
        reject(rank, k, n, change::fewer_blocks);
        if constexpr (tutti::is_combine<decltype(step)>) {
          reject(rank, k, n, change::store_not_fold);
        }
        if constexpr (tutti::is_combine<decltype(step)> || tutti::is_local<decltype(step)>) {
          if (tutti::rank_ordered<S>({root, size})) reject(rank, k, n, change::other_side);
        }
        if (several_vectors) reject(rank, k, n, change::other_vector);
        ++n;
      });
      if (n > 0) reject(rank, k, 0, change::skip_round);
    }
  }
  return tried;
}

}  // namespace

TEST_CASE("spoiled schedules are rejected") {
  int tried = 0;
  for (const int size : {2, 3, 5, 6, 8}) {
    tried += spoil<allreduce, tutti::ring>(size);
    tried += spoil<allreduce, tutti::circulant>(size);
    tried += spoil<allreduce, tutti::flat>(size);
    tried += spoil<allreduce, tutti::naive>(size);
    tried += spoil<allreduce, tutti::recursive_doubling>(size);
    tried += spoil<allreduce, tutti::halving_doubling>(size);
    tried += spoil<allreduce, tutti::single_master>(size);
    tried += spoil<reduce_scatter, tutti::pat>(size);
    tried += spoil<allgather, tutti::bruck>(size);
    tried += spoil<alltoall, tutti::bruck>(size);
    tried += spoil<reduce_scatter, tutti::k_ary<4>>(size);
    tried += spoil<reduce_scatter, tutti::swing>(size);
    tried += spoil<allgather, tutti::torus<>>(size);
    for (int root = 0; root < size; ++root) {
      tried += spoil<reduce, tutti::binomial>(size, root);
      tried += spoil<broadcast, tutti::binomial>(size, root);
      tried += spoil<gather, tutti::binomial>(size, root);
      tried += spoil<scatter, tutti::binomial>(size, root);
      tried += spoil<reduce, tutti::circulant>(size, root);
      tried += spoil<reduce, tutti::k_nomial<3>>(size, root);
      tried += spoil<scatter, tutti::k_nomial<3>>(size, root);
    }
    tried += spoil<reduce_scatter, tutti::canonical_halving>(size);
    tried += spoil<allreduce, tutti::canonical_halving>(size);
    tried += spoil<scan, tutti::recursive_doubling>(size);
    tried += spoil<exscan, tutti::recursive_doubling>(size);
    tried += spoil<allreduce, tutti::census>(size);
  }
  MESSAGE(tried << " spoiled schedules rejected");
  CHECK(tried >= 5000);
}

TEST_CASE("spoiled pipelines are rejected") {
  int tried = 0;
  for (const int size : {2, 3, 5, 6, 8}) {
    for (const int segments : {1, 2, 3}) {
      for (const int root : {0, size / 2, size - 1}) {
        tried += spoil<reduce, tutti::chain>(size, root, segments);
        tried += spoil<broadcast, tutti::chain>(size, root, segments);
        tried += spoil<reduce, tutti::two_tree>(size, root, segments);
        tried += spoil<broadcast, tutti::two_tree>(size, root, segments);
        tried += spoil<reduce, tutti::circulant_pipelined>(size, root, segments);
        tried += spoil<broadcast, tutti::circulant_pipelined>(size, root, segments);
      }
      tried += spoil<scan, tutti::chain>(size, 0, segments);
      tried += spoil<exscan, tutti::chain>(size, 0, segments);
      tried += spoil<allreduce, tutti::two_tree>(size, 0, segments);
    }
  }
  MESSAGE(tried << " spoiled schedules rejected");
  CHECK(tried >= 5000);
}
