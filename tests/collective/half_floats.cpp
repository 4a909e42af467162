// SPDX-License-Identifier: BSL-1.0

// Sums, products and averages of 16-bit numbers are those of float, rounded once at the end; what only chooses one of
// two values stays in 16 bits.

#include <tutti/tutti.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"
#include "deadline.hpp"

namespace {

using namespace conformance;
using tutti::bfloat16;
using tutti::collective;
using tutti::float16;

// ---- In what they are accumulated -----------------------------------------------------------------------------------
template <class H>
constexpr bool in_float = std::is_same_v<tutti::accumulator_t<H, std::plus<>>, float>&& std::is_same_v<
    tutti::accumulator_t<H, std::plus<H>>, float>&& std::is_same_v<tutti::accumulator_t<H, std::multiplies<>>, float>&&
    std::is_same_v<tutti::accumulator_t<H, tutti::average>, float>&&
        std::is_same_v<tutti::accumulator_t<H, tutti::minimum>, H>;
static_assert(in_float<bfloat16> && in_float<float16>);
static_assert(std::is_same_v<tutti::accumulator_t<float, std::plus<>>, float>);

/// Numbers between 1/4 and 4, all bits of their significands at random.
template <class H>
H number(int rank, std::size_t i) {
  const std::uint32_t bits = noise(static_cast<std::size_t>(rank), i, 5);
  return H(std::ldexp(static_cast<float>(bits % 65536 + 65536), static_cast<int>(bits >> 30) - 18));
}
template <class H>
std::vector<H> numbers(int rank, std::size_t n) {
  std::vector<H> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(number<H>(rank, i));
  return result;
}
template <class H>
std::vector<float> widened(const std::vector<H>& values) {
  return {values.begin(), values.end()};
}
template <class H>
std::vector<H> narrowed(const std::vector<float>& values) {
  std::vector<H> result;
  for (const float value : values) result.push_back(H(value));
  return result;
}

/// Whether positive numbers are at most one unit in the last place apart.
template <class H>
bool near(const std::vector<H>& a, const std::vector<H>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i].to_bits() - b[i].to_bits()) > 1) return false;
  return a.size() == b.size();
}

/// One after the other in float, and the same in 16 bits.
template <class H>
std::vector<H> row(int ranks, std::size_t n) {
  std::vector<float> sums = widened(numbers<H>(0, n));
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < n; ++i) sums[i] += number<H>(rank, i);
  return narrowed<H>(sums);
}
template <class H>
std::vector<H> rounded_each_time(int ranks, std::size_t n) {
  std::vector<H> sums = numbers<H>(0, n);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < n; ++i) sums[i] += number<H>(rank, i);
  return sums;
}

/// `op` on H must give the bits that it gives on float by the same algorithm, rounded.
template <class A, class H, class Op, class WideOp = Op>
void check_allreduce(auto& comm, findings& found, const std::vector<H>& mine, Op op, WideOp on_float = {}) {
  found.about("allreduce<", tutti::name_of<A>(), "> of ", mine.size(), " x ", tutti::type_name<H>(), " with ",
              tutti::type_name<Op>());
  std::vector<float> wide = widened(mine);
  tutti::allreduce<A>(comm, wide, on_float);
  const std::vector<H> expected = narrowed<H>(wide);
  guarded<H> out(mine.size(), 2), inout{std::span<const H>(mine)};
  tutti::allreduce<A>(comm, mine, out.span(), op);
  check_output(found, out, std::span<const H>(expected));
  tutti::allreduce<A>(comm, inout.span(), op);
  check_output(found, inout, std::span<const H>(expected));
}

using few = list<tutti::flat, tutti::circulant>;
using few_rooted = list<tutti::star, tutti::binomial>;

/// The same for the other reductions.
template <class H, class Op>
void check_others(auto& comm, findings& found, const std::vector<H>& mine, Op op) {
  const std::size_t n = mine.size();
  const std::vector<float> wide = widened(mine);
  const int root = comm.size() / 2;
  for_each_algorithm<collective::reduce>(few_rooted{}, comm.size(), [&]<class A>() {
    found.about("reduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<H>());
    std::vector<float> sums(n);
    tutti::reduce<A>(comm, wide, sums, op, root);
    const std::vector<H> expected = narrowed<H>(sums);
    std::vector<H> out(n), inout = mine;
    tutti::reduce<A>(comm, mine, out, op, root);
    tutti::reduce<A>(comm, inout, op, root);
    if (comm.rank() == root) found.same("the result", std::span<const H>(out), std::span<const H>(expected));
    found.same("in place the vector", std::span<const H>(inout),
               comm.rank() == root ? std::span<const H>(expected) : std::span<const H>(mine));
  });
  for_each_algorithm<collective::reduce_scatter>(few{}, comm.size(), [&]<class A>() {
    found.about("reduce_scatter<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<H>());
    std::vector<float> sums(tutti::layout(n, comm.size()).size(comm.rank()));
    tutti::reduce_scatter<A>(comm, wide, sums, op);
    const std::vector<H> expected = narrowed<H>(sums);
    std::vector<H> out(sums.size()), inout = mine;
    tutti::reduce_scatter<A>(comm, mine, out, op);
    found.same("the block", std::span<const H>(out), std::span<const H>(expected));
    const std::span<H> own = tutti::reduce_scatter<A>(comm, inout, op);
    found.same("in place the block", std::span<const H>(own), std::span<const H>(expected));
  });
  for_each_algorithm<collective::allreduce>(few{}, comm.size(), [&]<class A>() {
    found.about("iallreduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<H>());
    std::vector<float> sums = wide;
    tutti::allreduce<A>(comm, sums, op);
    std::vector<H> inout = mine;
    tutti::iallreduce<A>(comm, inout, op).wait();
    found.same("the result", std::span<const H>(inout), std::span<const H>(narrowed<H>(sums)));
  });
}

}  // namespace

TEST_CASE_TEMPLATE_DEFINE("every algorithm sums bfloat16 in float", Launcher, every_algorithm) {
  for (const int ranks : rank_counts) {
    if (test::sanitized && ranks > 5) continue;
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{3}, std::size_t{2011}}) {
        const std::vector<bfloat16> mine = numbers<bfloat16>(comm.rank(), n), expected = row<bfloat16>(ranks, n);
        for_each_algorithm_for<collective::allreduce, bfloat16, std::plus<>>(
            unless_sanitized<algorithms>{}, ranks, [&]<class A>() {
              // What is cheapest may be another algorithm where there are half as many bytes.
              if constexpr (!std::is_same_v<A, tutti::automatic>) check_allreduce<A>(comm, found, mine, std::plus<>{});
              std::vector<bfloat16> sum = mine;
              tutti::allreduce<A>(comm, sum, std::plus<>{});
              found.check(near(sum, expected), "the sum is not within one unit in the last place of that of float");
            });
        // Rounding each time would show.
        if (n > 1000 && ranks > 3)
          found.check(!near(rounded_each_time<bfloat16>(ranks, n), expected),
                      "the numbers do not tell how they were summed");
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_algorithm, launchers);

TEST_CASE_TEMPLATE_DEFINE("every reduction sums, multiplies and averages in float", Launcher, every_reduction) {
  for (const int ranks : {1, 2, 3, 7, 8}) {
    on_ranks<Launcher>(ranks, [](auto& comm, findings& found) {
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{5003}}) {
        const std::vector<bfloat16> mine = numbers<bfloat16>(comm.rank(), n);
        check_others(comm, found, mine, tutti::average{});
        check_allreduce<tutti::flat>(comm, found, mine, tutti::average{});
        check_allreduce<tutti::circulant>(comm, found, mine, std::multiplies<>{});
        check_allreduce<tutti::recursive_doubling>(comm, found, mine, std::plus<bfloat16>{}, std::plus<float>{});
        const std::vector<float16> other = numbers<float16>(comm.rank(), n);
        check_allreduce<tutti::flat>(comm, found, other, std::plus<>{});
        check_allreduce<tutti::halving_doubling>(comm, found, other, tutti::average{});
      }
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(every_reduction, launchers);

TEST_CASE_TEMPLATE_DEFINE("sums of 16 bits that are written past the caches", Launcher, streaming) {
  if constexpr (!test::sanitized) {
    on_ranks<Launcher>(2, [](auto& comm, findings& found) {
      const std::size_t n = streaming_length<bfloat16>(2);
      std::vector<bfloat16> mine(n);
      for (std::size_t i = 0; i < n; ++i)
        mine[i] = bfloat16(static_cast<float>((i + 1) % 251) + (comm.rank() == 0 ? 0 : 0.5F));
      check_allreduce<tutti::flat>(comm, found, mine, std::plus<>{});
      check_allreduce<tutti::ring>(comm, found, mine, std::plus<>{});
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(streaming, launchers);

TEST_CASE_TEMPLATE_DEFINE("sums that leave the range of 16 bits on the way come back", Launcher, range) {
  on_ranks<Launcher>(4, [](auto& comm, findings& found) {
    const float most = std::numeric_limits<float16>::max();
    const std::vector<float16> mine{float16(comm.rank() < 2 ? most : -most), float16(most)};
    for_each_algorithm<collective::allreduce>(
        list<tutti::flat, tutti::ring, tutti::recursive_doubling>{}, 4, [&]<class A>() {
          found.about("allreduce<", tutti::name_of<A>(), ">");
          std::vector<float16> sum = mine;
          tutti::allreduce<A>(comm, sum, std::plus<>{});
          found.check(sum[0] == 0.0F && std::isinf(sum[1]), text("sums are ", float(sum[0]), " and ", float(sum[1])));
          std::vector<float16> mean = mine;
          tutti::allreduce<A>(comm, mean, tutti::average{});
          found.check(mean[0] == 0.0F && mean[1] == most,
                      text("averages are ", float(mean[0]), " and ", float(mean[1])));
        });
  });
}
TEST_CASE_TEMPLATE_APPLY(range, launchers);

TEST_CASE_TEMPLATE_DEFINE("minimum and maximum keep NaN, and zeros apart", Launcher, extremes) {
  for (const int ranks : {2, 3, 5}) {
    on_ranks<Launcher>(ranks, [ranks](auto& comm, findings& found) {
      const bfloat16 nan = std::numeric_limits<bfloat16>::quiet_NaN();
      const bool last = comm.rank() == ranks - 1;
      const std::vector<bfloat16> mine{last ? nan : bfloat16(1), bfloat16(last ? -0.0F : 0.0F),
                                       bfloat16(comm.rank() - 1)};
      for_each_algorithm<collective::allreduce>(few{}, ranks, [&]<class A>() {
        found.about("allreduce<", tutti::name_of<A>(), ">");
        std::vector<bfloat16> least = mine, most = mine;
        tutti::allreduce<A>(comm, least, tutti::minimum{});
        tutti::allreduce<A>(comm, most, tutti::maximum{});
        found.check(least[0].to_bits() == nan.to_bits() && most[0].to_bits() == nan.to_bits(), "the NaN is lost");
        found.check(least[1].to_bits() == 0x8000 && most[1].to_bits() == 0, "the wrong zero");
        found.check(least[2] == -1.0F && most[2] == static_cast<float>(ranks - 2), "the wrong number");
      });
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(extremes, launchers);

// ---- Accumulators of the user's own ---------------------------------------------------------------------------------

namespace {

/// Seconds in 8 bits, which are summed in 64.
struct seconds {
  std::uint8_t count;
  explicit seconds(std::uint8_t c = 0) : count(c) {}
  explicit seconds(long long c) : count(static_cast<std::uint8_t>(c > 255 ? 255 : c)) {}
  explicit operator long long() const { return count; }
};
struct saturating_sum {
  long long operator()(long long a, long long b) const { return a + b; }
};

}  // namespace

template <>
struct tutti::accumulator<seconds, saturating_sum> {
  using type = long long;
};
template <>
struct tutti::is_commutative<saturating_sum, seconds> : std::true_type {};

TEST_CASE_TEMPLATE_DEFINE("a type of the user's own has an accumulator of its own", Launcher, own_accumulator) {
  on_ranks<Launcher>(5, [](auto& comm, findings& found) {
    for_each_algorithm<collective::allreduce>(list<tutti::automatic, tutti::flat, tutti::ring>{}, 5, [&]<class A>() {
      found.about("allreduce<", tutti::name_of<A>(), "> of a type with an accumulator");
      std::vector<seconds> data{seconds(std::uint8_t{100}), seconds(std::uint8_t{7})};
      tutti::allreduce<A>(comm, data, saturating_sum{});
      found.check(data[0].count == 255 && data[1].count == 35, "the wrong sum");
    });
  });
}
TEST_CASE_TEMPLATE_APPLY(own_accumulator, launchers);
