// SPDX-License-Identifier: BSL-1.0

// Exact sums are the same bits for every number of ranks, algorithm, order and grouping, and those of the exact sum
// rounded once.

#include <tutti/tutti.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "core/exact_reference.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using tutti::collective;
using tutti::exact_sum;
using tutti::reproducible_sum;

template <class T>
using bits_of = typename tutti::detail::unsigned_of<sizeof(T)>::type;

/// Contribution c to element i: in the first elements of few kinds that swallow each other, then any finite number.
template <class T>
T contribution(std::size_t c, std::size_t i) {
  using limits = std::numeric_limits<T>;
  const T one = static_cast<T>(1.0F), tiny = static_cast<T>(static_cast<float>(limits::epsilon()) / 2);
  const T least = limits::denorm_min(), most = limits::max(), little = static_cast<T>(1e-30F);
  const T kinds[][4] = {{one, tiny, -one, little}, {one, tiny, tiny, -tiny},     {most, most, -most, -least},
                        {most, one, one, tiny},    {-most, little, least, most}, {-one, little, one, -little}};
  if (i < std::size(kinds)) return kinds[i][c % 4];
  std::uint64_t pattern = noise(c, i, 1) | std::uint64_t{noise(c, i, 2)} << 32;
  // By turns of all sizes, and near each other so that they cancel.
  if (i % 2 == 0) return static_cast<T>(static_cast<float>(static_cast<int>(pattern % 2001) - 1000) / 64.0F);
  while (!std::isfinite(static_cast<double>(std::bit_cast<T>(static_cast<bits_of<T>>(pattern)))))
    pattern = pattern * 5 + 1;
  return std::bit_cast<T>(static_cast<bits_of<T>>(pattern));
}

/// The exact sums of the first contributions, rounded once.
template <class T>
std::vector<T> sums(std::size_t contributions, std::size_t n) {
  std::vector<T> result;
  for (std::size_t i = 0; i < n; ++i) {
    test::exact_reference<T> sum;
    for (std::size_t c = 0; c < contributions; ++c) sum.add(contribution<T>(c, i));
    result.push_back(sum.rounded());
  }
  return result;
}

template <class T>
std::vector<T> values_of(const std::vector<exact_sum<T>>& sums) {
  std::vector<T> result;
  for (const exact_sum<T>& sum : sums) result.push_back(sum.value());
  return result;
}

// The mechanism is that of averages of integers, which average.cpp tries with every algorithm of every collective.
using few = list<tutti::automatic, tutti::flat, tutti::circulant, tutti::recursive_doubling, tutti::single_master>;
using few_rooted = list<tutti::automatic, tutti::star, tutti::binomial>;

// ---- Accumulators as elements ---------------------------------------------------------------------------------------

constexpr std::size_t contributions_in_all = 256;
constexpr std::size_t elements = 19;

/// The rank's share of all contributions: those with numbers as its own modulo the number of ranks, or neighbours.
std::vector<exact_sum<float>> share(tutti::place at, bool neighbours) {
  std::vector<exact_sum<float>> result(elements);
  const auto p = static_cast<std::size_t>(at.size), r = static_cast<std::size_t>(at.rank);
  const tutti::layout blocks(contributions_in_all, at.size);
  for (std::size_t i = 0; i < elements; ++i) {
    if (neighbours) {
      std::vector<float> mine;
      for (std::size_t c = 0; c < blocks.size(at.rank); ++c)
        mine.push_back(contribution<float>(blocks.offset(at.rank) + c, i));
      result[i].add(mine);
    } else {
      for (std::size_t c = r; c < contributions_in_all; c += p) result[i] += contribution<float>(c, i);
    }
  }
  return result;
}

template <class Launcher, class Algorithms>
void check_accumulators(Algorithms chosen, int ranks) {
  static const std::vector<float> expected = sums<float>(contributions_in_all, elements);
  static const std::vector<exact_sum<float>> whole = share({0, 1}, true);
  on_ranks<Launcher>(ranks, [ranks, chosen](auto& comm, findings& found) {
    bool neighbours = false;
    for_each_algorithm<collective::allreduce>(chosen, ranks, [&]<class A>() {
      found.about("allreduce<", tutti::name_of<A>(), "> of accumulators");
      std::vector<exact_sum<float>> data = share(comm.place(), neighbours = !neighbours);
      tutti::allreduce<A>(comm, data, std::plus<>{});
      found.same("the sum", std::span<const float>(values_of(data)), std::span<const float>(expected));
      found.same("the accumulator", std::span<const exact_sum<float>>(data), std::span<const exact_sum<float>>(whole));
    });
  });
}

// ---- Plain numbers --------------------------------------------------------------------------------------------------

template <class Launcher, class T, class Algorithms>
void check_numbers(Algorithms chosen, int ranks, std::size_t n) {
  const std::vector<T> expected = sums<T>(static_cast<std::size_t>(ranks), n);
  on_ranks<Launcher>(ranks, [&expected, ranks, n, chosen](auto& comm, findings& found) {
    std::vector<T> mine;
    for (std::size_t i = 0; i < n; ++i) mine.push_back(contribution<T>(static_cast<std::size_t>(comm.rank()), i));
    const std::span<const T> all(expected);
    const guarded<T> in{std::span<const T>(mine)};
    const auto about = [&](const char* verb, std::string_view algorithm) {
      found.about(verb, '<', algorithm, "> of ", n, " x ", tutti::type_name<T>());
    };
    for_each_algorithm<collective::allreduce>(chosen, ranks, [&]<class A>() {
      about("allreduce", tutti::name_of<A>());
      guarded<T> out(n, 2), inout{std::span<const T>(mine)};
      tutti::allreduce<A>(comm, in.values(), out.span(), reproducible_sum{});
      check_output(found, out, all);
      tutti::allreduce<A>(comm, inout.span(), reproducible_sum{});
      check_output(found, inout, all);
    });
    const int root = ranks - 1;
    for_each_algorithm<collective::reduce>(few_rooted{}, ranks, [&]<class A>() {
      about("reduce", tutti::name_of<A>());
      guarded<T> out(n, 2), inout{std::span<const T>(mine)};
      tutti::reduce<A>(comm, in.values(), out.span(), reproducible_sum{}, root);
      tutti::reduce<A>(comm, inout.span(), reproducible_sum{}, root);
      if (comm.rank() == root) {
        check_output(found, out, all);
        check_output(found, inout, all);
      } else {
        found.check(out.untouched(), "the output of a rank that is not the root was written");
        check_input(found, inout, std::span<const T>(mine));
      }
    });
    const tutti::layout blocks(n, ranks);
    const auto block = all.subspan(blocks.offset(comm.rank()), blocks.size(comm.rank()));
    for_each_algorithm<collective::reduce_scatter>(few{}, ranks, [&]<class A>() {
      about("reduce_scatter", tutti::name_of<A>());
      guarded<T> out(block.size(), 2), inout{std::span<const T>(mine)};
      tutti::reduce_scatter<A>(comm, in.values(), out.span(), reproducible_sum{});
      check_output(found, out, block);
      const std::span<T> own = tutti::reduce_scatter<A>(comm, inout.span(), reproducible_sum{});
      found.same("in place the block", std::span<const T>(own), block);
      found.check(inout.intact(), "something beside the buffer was written");
    });
    check_input(found, in, std::span<const T>(mine));
  });
}

template <class Launcher, class T>
void check_pending() {
  static constexpr std::size_t n = 401;
  for (const int ranks : {1, 2, 5}) {
    const std::vector<T> expected = sums<T>(static_cast<std::size_t>(ranks), n);
    on_ranks<Launcher>(ranks, [&expected, ranks](auto& comm, findings& found) {
      std::vector<T> mine;
      for (std::size_t i = 0; i < n; ++i) mine.push_back(contribution<T>(static_cast<std::size_t>(comm.rank()), i));
      for_each_algorithm<collective::allreduce>(few{}, ranks, [&]<class A>() {
        found.about("iallreduce<", tutti::name_of<A>(), ">");
        guarded<T> out(n, 2), inout{std::span<const T>(mine)};
        auto apart = tutti::iallreduce<A>(comm, mine, out.span(), reproducible_sum{});
        auto in_place = tutti::iallreduce<A>(comm, inout.span(), reproducible_sum{});
        apart.wait();
        check_output(found, out, std::span<const T>(expected));
        in_place.wait();
        check_output(found, inout, std::span<const T>(expected));
      });
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("256 contributions sum to the same bits on 1 to 64 ranks", Launcher, many_ranks) {
  // Starting threads takes long under a sanitizer.
  for (int ranks = 1; ranks <= 64; ranks += test::sanitized && ranks >= 9 ? 11 : 1)
    check_accumulators<Launcher>(few{}, ranks);
}
TEST_CASE_TEMPLATE_APPLY(many_ranks, launchers);

TEST_CASE_TEMPLATE_DEFINE("accumulators sum to the same bits by every algorithm", Launcher, every_algorithm) {
  for (const int ranks : {2, 3, 5, 8}) check_accumulators<Launcher>(unless_sanitized<algorithms>{}, ranks);
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("floats sum exactly by every algorithm", Launcher, floats) {
  for (const int ranks : {1, 2, 3, 5, 8}) check_numbers<Launcher, float>(unless_sanitized<algorithms>{}, ranks, 101);
}
TEST_CASE_TEMPLATE_APPLY(floats, launchers);

TEST_CASE_TEMPLATE_DEFINE("other types sum exactly", Launcher, other_types) {
  for (const int ranks : {1, 2, 5}) {
    check_numbers<Launcher, double>(few{}, ranks, 301);
    check_numbers<Launcher, tutti::bfloat16>(list<tutti::circulant>{}, ranks, 301);
    if constexpr (!test::sanitized) check_numbers<Launcher, tutti::float16>(list<tutti::circulant>{}, ranks, 301);
  }
}
TEST_CASE_TEMPLATE_APPLY(other_types, launchers);

TEST_CASE_TEMPLATE_DEFINE("few and many elements sum exactly", Launcher, lengths) {
  // None, fewer than ranks; several chunks of what is accumulated in cache; several messages.
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{700}, std::size_t{5003}})
    check_numbers<Launcher, float>(few{}, 3, n);
}
TEST_CASE_TEMPLATE_APPLY(lengths, launchers);

TEST_CASE_TEMPLATE_DEFINE("sums that do not block are exact", Launcher, pending) { check_pending<Launcher, float>(); }
TEST_CASE_TEMPLATE_APPLY(pending, launchers);

TEST_CASE_TEMPLATE_DEFINE("infinities, NaN and zeros come out alike", Launcher, specials) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const int ranks : {1, 2, 3, 4, 7}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      const bool first = comm.rank() == 0, last = comm.rank() == ranks - 1;
      const std::vector<float> mine{-0.0F,
                                    first ? -0.0F : 0.0F,
                                    first ? infinity : -3e38F,
                                    last ? -infinity : 3e38F,
                                    last ? -nan : 1.0F,
                                    last ? -infinity : infinity,
                                    last ? nan : infinity};
      const std::vector<float> expected{0.0F, 0.0F, infinity, -infinity, nan, ranks == 1 ? -infinity : nan, nan};
      for_each_algorithm<collective::allreduce>(few{}, ranks, [&]<class A>() {
        found.about("allreduce<", tutti::name_of<A>(), ">");
        std::vector<float> data = mine;
        tutti::allreduce<A>(comm, data, reproducible_sum{});
        found.same("the sum", std::span<const float>(data), std::span<const float>(expected));
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(specials, launchers);

TEST_CASE_TEMPLATE_DEFINE("a plain sum and a reproducible one do not go together", Launcher, mixed) {
  on_ranks<Launcher>(2, [](auto& comm, findings& found) {
    found.about("one rank sums exactly");
    std::vector<float> data(10, 1.0F);
    try {
      if (comm.rank() == 0) {
        tutti::allreduce<tutti::ring>(comm, data, std::plus<>{});
      } else {
        tutti::allreduce<tutti::ring>(comm, data, reproducible_sum{});
      }
      found.wrong("nothing was thrown");
    } catch (const tutti::mismatch& e) {
      const std::string what = e.what();
      found.check(what.find("reproducible_sum") != std::string::npos && what.find("plus") != std::string::npos, what);
    }
  });
}
TEST_CASE_TEMPLATE_APPLY(mixed, launchers);
