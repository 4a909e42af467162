// SPDX-License-Identifier: BSL-1.0

// Data moved by schedules of two levels, on threads that are told which of them share a host, and what is chosen there.

#include <tutti/collective/explain.hpp>
#include <tutti/core/host_table.hpp>
#include <tutti/schedule/two_level.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "collective/movement_checks.hpp"
#include "collective/reduction_checks.hpp"

namespace {

using namespace conformance;
using tutti::collective, tutti::two_level, tutti::flat;

struct hosted_group : tutti::threads::group_type {
  hosted_group(int ranks, std::span<const int> host_of_rank) : tutti::threads::group_type(ranks), hosts(host_of_rank) {}
  tutti::host_table hosts;
};

/// Threads as if on several hosts, with a network of 40 us and 1 GB/s between them.
class hosted_threads : public tutti::threads {
 public:
  using group_type = hosted_group;

  hosted_threads(group_type& group, int rank) : tutti::threads(group, rank), hosts_(&group.hosts.map()) {}
  const tutti::host_map* hosts() const { return hosts_; }
  tutti::cost_parameters costs_between_hosts() const { return {40e-6, 4e-6, 1e-9, 0.0003e-9}; }

 private:
  const tutti::host_map* hosts_;
};
static_assert(tutti::hosted_transport<hosted_threads> && !tutti::hosted_transport<tutti::threads>);

/// `f(comm, findings)` on ranks of which the i-th is on the host of number `host_of_rank[i]`.
template <class F>
void on_hosts(const std::vector<int>& host_of_rank, F f) {
  const auto ranks = static_cast<int>(host_of_rank.size());
  try {
    tutti::detail::ranks<hosted_threads> all(ranks, std::span<const int>(host_of_rank));
    tutti::detail::run_ranks(all, [&](auto& comm) {
      comm.timeout(std::chrono::seconds(60));
      findings found(comm.place());
      f(comm, found);
      found.conclude();
    });
  } catch (const std::exception& e) {
    const std::string what = text(ranks, " ranks: ", e.what());
    FAIL_CHECK(what);
  }
}

/// Hosts of so many ranks, one after the other.
std::vector<int> hosts_of(std::initializer_list<int> sizes) {
  std::vector<int> result;
  int host = 0;
  for (const int size : sizes) result.insert(result.end(), static_cast<std::size_t>(size), host++);
  return result;
}

/// In blocks and dealt out, even and not.
const std::vector<std::vector<int>> all_hosts{{0},
                                              {0, 0, 0},
                                              {3, 1, 2},
                                              hosts_of({1, 3}),
                                              {0, 1, 0, 1},
                                              {1, 0, 0, 1, 1},
                                              hosts_of({8, 1}),
                                              hosts_of({1, 1, 6}),
                                              {0, 1, 2, 0, 1, 2, 2, 1, 0},
                                              hosts_of({7, 8}),
                                              hosts_of({4, 4, 4, 4})};

template <class A>
void move_all(const std::vector<int>& hosts) {
  const auto p = hosts.size();
  const int ranks = static_cast<int>(p);
  const values<int> data(ranks, 1403 * p);
  on_hosts(hosts, [&](auto& comm, findings& found) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p + 1}) {
      for (int root = 0; root < ranks; ++root) {
        check_broadcast<A>(comm, found, data, n, root);
        check_scatter<A>(comm, found, data, n, root);
        check_gather<A>(comm, found, data, n, root);
      }
    }
    // More than one message holds, and more than is copied.
    constexpr std::size_t many = 1403;
    for (const int root : {0, ranks / 2, ranks - 1}) {
      check_broadcast<A>(comm, found, data, many, root);
      check_scatter<A>(comm, found, data, many, root);
      check_gather<A>(comm, found, data, many, root);
    }
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p + 1, many}) {
      check_allgather<A>(comm, found, data, n);
      check_alltoall<A>(comm, found, data, n);
    }
    tutti::barrier<A>(comm);
  });
}

template <class A>
void fold_all(const std::vector<int>& hosts) {
  const auto p = hosts.size();
  const int ranks = static_cast<int>(p);
  const contributions<unsigned, std::plus<>> data(ranks, 1100 * p + 1, {});
  on_hosts(hosts, [&](auto& comm, findings& found) {
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p + 1}) {
      for (int root = 0; root < ranks; ++root) check_reduce<A>(comm, found, data, n, root);
    }
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p + 1, 1100 * p + 1}) {
      check_reduce<A>(comm, found, data, n, ranks / 2);
      check_reduce_scatter<A>(comm, found, data, n);
      check_allreduce<A>(comm, found, data, n);
    }
  });
}

/// The algorithm that the call takes, the same on every rank.
template <collective C, class Choice = tutti::automatic, bool Commutes = true>
std::string chosen_on(const std::vector<int>& hosts, std::size_t bytes) {
  std::string chosen;
  on_hosts(hosts, [&](auto& comm, findings& found) {
    const std::string mine(tutti::explain<C, Choice, Commutes>(comm, bytes).chosen);
    if (comm.rank() == 0) chosen = mine;
    tutti::barrier(comm);
    found.check(mine == chosen, "ranks choose differently");
  });
  return chosen;
}
bool is_of_two_levels(const std::string& algorithm) { return algorithm.starts_with("two_level<"); }

const std::vector<int> four_by_four = hosts_of({4, 4, 4, 4});

}  // namespace

TEST_CASE("two levels move all data to where it belongs, wherever ranks stand") {
  for (const std::vector<int>& hosts : all_hosts) {
    move_all<two_level<>>(hosts);
    fold_all<two_level<>>(hosts);
  }
}

TEST_CASE("what is chosen on hosts gives the right results") {
  for (const std::vector<int>& hosts : {hosts_of({1, 3}), {0, 1, 0, 1}, hosts_of({1, 1, 6})}) {
    const int ranks = static_cast<int>(hosts.size());
    const contributions<unsigned, std::plus<>> data(ranks, 20'000, {});
    on_hosts(hosts, [&](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{3}, std::size_t{20'000}})
        check_allreduce<tutti::automatic>(comm, found, data, n);
    });
  }
}

TEST_CASE("pipelines between hosts, and two nonblocking calls at once") {
  for (const std::vector<int>& hosts : {hosts_of({2, 2, 2}), hosts_of({1, 4, 2})}) {
    const int ranks = static_cast<int>(hosts.size());
    constexpr std::size_t n = 20'000;
    const contributions<unsigned, std::plus<>> data(ranks, n, {});
    on_hosts(hosts, [&](auto& comm, findings& found) {
      using pipelined = two_level<flat, tutti::circulant_pipelined>;
      check_allreduce<pipelined>(comm, found, data, n);
      check_reduce<pipelined>(comm, found, data, n, 1);
      found.about("iallreduce");
      const std::span<const unsigned> mine = data.of(comm.rank(), n);
      std::vector<unsigned> one(mine.begin(), mine.end());
      std::vector<unsigned> other(mine.begin(), mine.begin() + 5);
      auto first = tutti::iallreduce<two_level<>>(comm, one, std::plus<>{});
      auto second = tutti::iallreduce<two_level<>>(comm, other, std::plus<>{});
      second.wait();
      first.wait();
      found.same("the first result", std::span<const unsigned>(one), data.fold(n));
      found.same("the second result", std::span<const unsigned>(other), data.fold(5));
    });
  }
}

namespace {

template <collective C, class A>
void check_segments(auto& comm, findings& found) {
  using S = tutti::schedule_for<C, A>;
  found.about(tutti::name_of(C), "<", tutti::name_of<A>(), ">");
  for (const std::size_t bytes : {std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{1} << 24}) {
    const int taken = tutti::detail::schedule_of_call<S>(comm, 0, bytes, bytes).segments;
    found.check(bytes < std::size_t{1} << 24 || taken > 1, "it does not pipeline");
    found.check(taken == tutti::detail::segments_of<S>(tutti::detail::predict_for<S>(comm), bytes, bytes),
                "the call has other segments than are predicted");
  }
}

}  // namespace

TEST_CASE("on hosts calls pipeline in as many segments as their prediction counts") {
  for (const std::vector<int>& hosts : {hosts_of({2, 2, 2}), hosts_of({1, 4, 2}), hosts_of({7, 8, 3, 4})}) {
    on_hosts(hosts, [&](auto& comm, findings& found) {
      using pipelined = two_level<flat, tutti::circulant_pipelined>;
      check_segments<collective::broadcast, pipelined>(comm, found);
      check_segments<collective::reduce, pipelined>(comm, found);
      check_segments<collective::allreduce, pipelined>(comm, found);
      check_segments<collective::broadcast, two_level<tutti::chain, tutti::chain>>(comm, found);
      check_segments<collective::broadcast, tutti::two_tree>(comm, found);
    });
  }
}

TEST_CASE("where messages between hosts are dear two levels are chosen, by every rank") {
  using enum tutti::collective;
  const std::vector<int> uneven = hosts_of({7, 8});
  for (const std::vector<int>& hosts : {four_by_four, uneven}) {
    CHECK(is_of_two_levels(chosen_on<allreduce>(hosts, 1 << 22)));
    // What folds nothing has no order to keep.
    CHECK(is_of_two_levels(chosen_on<broadcast, tutti::ordered>(hosts, 1 << 16)));
  }
  CHECK(chosen_on<allreduce>(four_by_four, 1 << 22) == "two_level<flat, circulant>");
  CHECK(chosen_on<allreduce>(uneven, 64) == "two_level<flat, recursive_doubling>");
  CHECK(is_of_two_levels(chosen_on<barrier>(uneven, 0)));
  CHECK(chosen_on<broadcast>(hosts_of({2, 2, 2, 2, 2, 2}), 1 << 24) == "two_level<flat, circulant_pipelined>");
}

TEST_CASE("two levels are not chosen where there is one, nor where order must be kept") {
  using enum tutti::collective;
  const std::vector<int> one_host(8, 5);
  const std::vector<int> own_hosts{0, 1, 2, 3, 4, 5, 6, 7};
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 22}) {
    CAPTURE(bytes);
    CHECK_FALSE(is_of_two_levels(chosen_on<allreduce>(one_host, bytes)));
    CHECK_FALSE(is_of_two_levels(chosen_on<allreduce>(own_hosts, bytes)));
    CHECK_FALSE(is_of_two_levels(chosen_on<allreduce, tutti::automatic, false>(four_by_four, bytes)));
    CHECK_FALSE(is_of_two_levels(chosen_on<allreduce, tutti::ordered>(four_by_four, bytes)));
    CHECK_FALSE(is_of_two_levels(chosen_on<reduce, tutti::ordered>(four_by_four, bytes)));
    // As on threads that know of no hosts.
    std::string without;
    tutti::run(8, [&](auto& comm) {
      if (comm.rank() == 0) without = tutti::explain<allreduce>(comm, bytes).chosen;
    });
    CHECK(chosen_on<allreduce>(one_host, bytes) == without);
  }
}

TEST_CASE("an explanation says why two levels are refused, and a call where they do not fit") {
  on_hosts({0, 0, 0}, [&](auto& comm, findings& found) {
    const tutti::explanation e = tutti::explain<collective::allreduce>(comm, 100);
    bool told = false;
    for (const tutti::candidate& c : e.candidates)
      told |= c.algorithm == "two_level<flat, circulant>" &&
              c.refused == "needs several hosts, and several ranks on one of them";
    found.check(told, "nothing is said about two levels");
  });
  on_hosts({0, 0, 0, 1}, [&](auto& comm, findings& found) {
    std::vector<int> data(4);
    try {
      tutti::allreduce<two_level<tutti::hypercube_doubling, flat>>(comm, data, std::plus<>{});
      found.wrong("nothing was thrown");
    } catch (const tutti::usage_error& e) {
      const std::string rank = std::to_string(comm.rank());
      found.check(std::string(e.what()).find("allreduce on rank " + rank +
                                             " of 4: algorithm two_level<hypercube_doubling, flat> does not support "
                                             "this number of ranks on these hosts") != std::string::npos,
                  e.what());
    }
  });
}
