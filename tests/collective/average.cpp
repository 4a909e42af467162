// SPDX-License-Identifier: BSL-1.0

// The average of integers is exact and rounded toward zero, that of floating-point numbers is their sum divided once.

#include <tutti/tutti.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"

namespace {

using namespace conformance;

/// Every rank's vector holds `value(rank, i)`; each collective that averages must give `expected(i)`.
template <class Launcher, class T, class Algorithms>
void check(Algorithms chosen, int ranks, std::size_t n, T (*value)(int rank, std::size_t i),
           const std::vector<T>& expected) {
  on_ranks<Launcher>(ranks, [&](auto& comm, findings& found) {
    std::vector<T> mine;
    for (std::size_t i = 0; i < n; ++i) mine.push_back(value(comm.rank(), i));
    const std::span<const T> all(expected);
    const tutti::layout blocks(n, ranks);
    for_each_algorithm_for<tutti::collective::allreduce, T, tutti::average>(chosen, ranks, [&]<class A>() {
      found.about("allreduce<", tutti::name_of<A>(), "> with average of ", tutti::type_name<T>());
      std::vector<T> result(n), in_place = mine;
      tutti::allreduce<A>(comm, mine, result, tutti::average{});
      found.same("the average", std::span<const T>(result), all);
      tutti::allreduce<A>(comm, in_place, tutti::average{});
      found.same("the average in place", std::span<const T>(in_place), all);
    });
    for_each_algorithm_for<tutti::collective::reduce, T, tutti::average>(chosen, ranks, [&]<class A>() {
      found.about("reduce<", tutti::name_of<A>(), "> with average of ", tutti::type_name<T>());
      const int root = ranks / 2;
      std::vector<T> result(n), in_place = mine;
      tutti::reduce<A>(comm, mine, result, tutti::average{}, root);
      tutti::reduce<A>(comm, in_place, tutti::average{}, root);
      if (comm.rank() == root) found.same("the average", std::span<const T>(result), all);
      // In place the others keep what they had.
      found.same("in place the vector", std::span<const T>(in_place),
                 comm.rank() == root ? all : std::span<const T>(mine));
    });
    for_each_algorithm_for<tutti::collective::reduce_scatter, T, tutti::average>(chosen, ranks, [&]<class A>() {
      found.about("reduce_scatter<", tutti::name_of<A>(), "> with average of ", tutti::type_name<T>());
      const auto block = all.subspan(blocks.offset(comm.rank()), blocks.size(comm.rank()));
      std::vector<T> result(block.size()), in_place = mine;
      tutti::reduce_scatter<A>(comm, mine, result, tutti::average{});
      found.same("the average", std::span<const T>(result), block);
      const std::span<T> own = tutti::reduce_scatter<A>(comm, in_place, tutti::average{});
      found.same("the average in place", std::span<const T>(own), block);
    });
    found.about("iallreduce with average of ", tutti::type_name<T>());
    tutti::iallreduce(comm, mine, tutti::average{}).wait();
    found.same("the average", std::span<const T>(mine), all);
  });
}

/// All ranks hold one and the same value, which must come out.
template <class Launcher, std::integral T>
void check_extremes() {
  for (const int ranks : {1, 2, 3, 7, 16}) {
    const auto value = [](int, std::size_t i) {
      const T all[] = {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), T{0}, T{1}, static_cast<T>(-1)};
      return all[i % 5];
    };
    std::vector<T> expected;
    for (std::size_t i = 0; i < 23; ++i) expected.push_back(value(0, i));
    check<Launcher, T>(list<tutti::automatic>{}, ranks, 23, +value, expected);
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("F11: averages of the largest and smallest integers do not wrap", Launcher, extremes) {
  check_extremes<Launcher, std::int8_t>();
  check_extremes<Launcher, std::uint16_t>();
  check_extremes<Launcher, int>();
  check_extremes<Launcher, unsigned>();
  check_extremes<Launcher, std::int64_t>();
  check_extremes<Launcher, std::uint64_t>();
}
TEST_CASE_TEMPLATE_APPLY(extremes, launchers);

TEST_CASE_TEMPLATE_DEFINE("F11: every algorithm averages, exactly, rounded toward zero", Launcher, every_algorithm) {
  for (const int ranks : {2, 3, 4, 7, 8}) {
    // Sums of all remainders and both signs.
    constexpr auto value = [](int rank, std::size_t i) {
      return rank == 0 ? static_cast<int>(i) - 50 : std::numeric_limits<int>::max() * (rank % 2 == 0 ? -1 : 1);
    };
    std::vector<int> expected;
    for (std::size_t i = 0; i < 101; ++i) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
      const std::int64_t size = sum < 0 ? -sum / ranks : sum / ranks;
      expected.push_back(static_cast<int>(sum < 0 ? -size : size));
    }
    check<Launcher, int>(unless_sanitized<representative_algorithms>{}, ranks, 101, +value, expected);
  }
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("F11: averages of few and of large values", Launcher, hand_made) {
  // -1, 0 and 0: not -1. 100 and 127 in 8 bits: 113, not -15.
  check<Launcher, int>(list<tutti::automatic>{}, 3, 1, [](int rank, std::size_t) { return rank == 0 ? -1 : 0; }, {0});
  check<Launcher, int>(list<tutti::automatic>{}, 2, 2,
                       [](int rank, std::size_t i) { return i == 0 ? -rank : -3 * rank; }, {0, -1});
  check<Launcher, std::int8_t>(list<tutti::automatic>{}, 2, 1,
                               [](int rank, std::size_t) -> std::int8_t { return rank == 0 ? 100 : 127; }, {113});
  check<Launcher, std::uint64_t>(list<tutti::automatic>{}, 2, 1,
                                 [](int rank, std::size_t) { return ~std::uint64_t{0} - (rank == 0 ? 0U : 2U); },
                                 {~std::uint64_t{0} - 1});
}
TEST_CASE_TEMPLATE_APPLY(hand_made, launchers);

TEST_CASE_TEMPLATE_DEFINE("the average of floating-point numbers is their sum divided once", Launcher, floating) {
  for (const int ranks : rank_counts) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      std::vector<double> mine;
      for (std::size_t i = 0; i < 5000; ++i) {
        mine.push_back(static_cast<double>(noise(static_cast<std::size_t>(comm.rank()), i)) / 3.0 - 7e8);
      }
      for_each_algorithm_for<tutti::collective::allreduce, double, std::plus<>>(
          unless_sanitized<representative_algorithms>{}, ranks, [&]<class A>() {
            found.about("allreduce<", tutti::name_of<A>(), "> with average of double");
            std::vector<double> sum(mine.size()), mean(mine.size());
            tutti::allreduce<A>(comm, mine, sum, std::plus<>{});
            for (double& s : sum) s = s / static_cast<double>(ranks);
            tutti::allreduce<A>(comm, mine, mean, tutti::average{});
            found.same("the average", std::span<const double>(mean), std::span<const double>(sum));
          });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(floating, launchers);
