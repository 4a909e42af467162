// SPDX-License-Identifier: BSL-1.0

// On networks for which textbooks have a formula the simulation comes to what the formula says.

#include <tutti/schedule/algorithms.hpp>
#include <tutti/simulation/simulate.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace tutti;
using enum tutti::collective;

namespace {

// A message of n bytes takes alpha + n beta, per_fold them n gamma.
constexpr double alpha = 2e-6;
constexpr double beta = 1e-10;
constexpr double per_fold = 3e-11;
constexpr network alpha_beta_gamma{
    .latency = alpha, .overhead = 0, .gap = 0, .byte = beta, .fold = per_fold, .ports = 1};

template <collective C, class A>
double time_of(int p, std::size_t bytes, const network& net) {
  return simulate_each_rank(schedule_for<C, A>{}, p, bytes, net).makespan;
}

doctest::Approx about(double value) { return doctest::Approx(value).epsilon(1e-12); }

}  // namespace

TEST_CASE("ring: 2((P-1) alpha + (P-1)/P N beta), and (P-1)/P N gamma") {
  for (const int p : {2, 3, 5, 8, 17, 32}) {
    const std::size_t n = static_cast<std::size_t>(p) * 10'000;
    const double share = static_cast<double>(n) / p;
    CHECK(time_of<allreduce, ring>(p, n, alpha_beta_gamma) ==
          about((p - 1) * (2 * (alpha + share * beta) + share * per_fold)));
  }
}

TEST_CASE("circulant, pat, bruck: 2 (q alpha + (p-1)/p n beta), and (p-1)/p n gamma") {
  for (const int p : {2, 3, 5, 8, 17, 32}) {
    const std::size_t n = static_cast<std::size_t>(p) * 10'000;
    const double sent = static_cast<double>(n) * (p - 1) / p;
    const double expected = 2 * (detail::ceil_log2(p) * alpha + sent * beta) + sent * per_fold;
    CHECK(time_of<allreduce, circulant>(p, n, alpha_beta_gamma) == about(expected));
    CHECK(time_of<allreduce, pat>(p, n, alpha_beta_gamma) == about(expected));
    CHECK(time_of<allreduce, bruck>(p, n, alpha_beta_gamma) == about(expected));
  }
}

TEST_CASE(
    "recursive doubling: log2 p (alpha + n beta + n gamma); the fold adds no more than 2 alpha + n (2 beta + gamma)") {
  constexpr double n = 12'345;
  constexpr double exchange = alpha + n * (beta + per_fold);
  for (const int p : {2, 4, 16, 64}) {
    CHECK(time_of<allreduce, recursive_doubling>(p, 12'345, alpha_beta_gamma) ==
          about(detail::floor_log2(p) * exchange));
  }
  // The odd one out has sent before its partner is ready, which therefore waits for no latency but its own.
  CHECK(time_of<allreduce, recursive_doubling>(3, 12'345, alpha_beta_gamma) ==
        about(2 * alpha + 3 * n * beta + n * per_fold));
  // Elsewhere, at most that in lockstep, and no less than without the fold.
  for (const int p : {5, 23, 63}) {
    const double time = time_of<allreduce, recursive_doubling>(p, 12'345, alpha_beta_gamma);
    CHECK(time > detail::floor_log2(p) * exchange);
    CHECK(time <= about((detail::floor_log2(p) + 1) * exchange + alpha + n * beta));
  }
}

TEST_CASE("halving-doubling: 2 f alpha + 2 (p-1)/p n beta + (p-1)/p n gamma at powers of two") {
  for (const int p : {2, 4, 16, 64}) {
    const double share = 6400.0 / p * (p - 1);
    CHECK(time_of<allreduce, halving_doubling>(p, 6400, alpha_beta_gamma) ==
          about(2 * detail::floor_log2(p) * alpha + share * (2 * beta + per_fold)));
  }
}

TEST_CASE("binomial: q (alpha + n beta) down, q n gamma more up") {
  constexpr double n = 5000;
  for (const int p : {2, 4, 8, 64}) {
    const int q = detail::ceil_log2(p);
    CHECK(time_of<broadcast, binomial>(p, 5000, alpha_beta_gamma) == about(q * (alpha + n * beta)));
    // Up, all leaders of a level are equally late.
    CHECK(time_of<reduce, binomial>(p, 5000, alpha_beta_gamma) == about(q * (alpha + n * (beta + per_fold))));
    CHECK(time_of<allreduce, binomial>(p, 5000, alpha_beta_gamma) ==
          about(q * (2 * (alpha + n * beta) + n * per_fold)));
  }
}

TEST_CASE("single master, one port: what comes in and what goes out is serialised at the master") {
  constexpr double n = 5000;
  // Folding is faster than receiving, so all but the last fold are hidden.
  for (const int p : {2, 3, 10, 33}) {
    CHECK(time_of<reduce, single_master>(p, 5000, alpha_beta_gamma) ==
          about(alpha + (p - 1) * n * beta + n * per_fold));
    CHECK(time_of<broadcast, single_master>(p, 5000, alpha_beta_gamma) == about(alpha + (p - 1) * n * beta));
  }
  // Folding is slower than receiving: the processor is what is waited for.
  network slow = alpha_beta_gamma;
  slow.fold = 10 * beta;
  CHECK(time_of<reduce, single_master>(10, 5000, slow) == about(alpha + n * beta + 9 * n * slow.fold));
}

TEST_CASE("flat with p-1 ports: 2 (alpha + n/p beta), and p-1 folds") {
  for (const int p : {2, 3, 10, 33}) {
    network wide = alpha_beta_gamma;
    wide.ports = p - 1;
    const std::size_t n = static_cast<std::size_t>(p) * 1000;
    CHECK(time_of<allreduce, flat>(p, n, wide) == about(2 * (alpha + 1000 * beta) + (p - 1) * 1000 * per_fold));
  }
  // With half as many ports in two waves.
  network half = alpha_beta_gamma;
  half.ports = 4;
  half.fold = 0;
  CHECK(time_of<reduce_scatter, flat>(9, 9000, half) == about(alpha + 2 * 1000 * beta));
}

TEST_CASE("overhead is the processor's, at each end; the gap is the port's, between messages") {
  const network net{.latency = 5e-6, .overhead = 1e-6, .gap = 3e-6, .byte = 1e-9, .fold = 0, .ports = 1};
  // One message: o + n G + L + o.
  CHECK(time_of<broadcast, single_master>(2, 100, net) == about(1e-6 + 100e-9 + 5e-6 + 1e-6));
  // The second leaves when the gap is over, and comes to another rank.
  CHECK(time_of<broadcast, single_master>(3, 100, net) == about(1e-6 + 2 * 100e-9 + 3e-6 + 5e-6 + 1e-6));
  // Two that arrive at once are taken in with a gap between them.
  CHECK(time_of<reduce, single_master>(3, 100, net) == about(1e-6 + 2 * 100e-9 + 3e-6 + 5e-6 + 1e-6));
  // With a port for each, only the processor is busy with one after the other.
  network wide = net;
  wide.ports = 2;
  CHECK(time_of<broadcast, single_master>(3, 100, wide) == about(2 * 1e-6 + 100e-9 + 5e-6 + 1e-6));
  CHECK(time_of<reduce, single_master>(3, 100, wide) == about(1e-6 + 100e-9 + 5e-6 + 2 * 1e-6));
}

TEST_CASE("barrier: q (L + 2 o)") {
  const network net{.latency = 2e-6, .overhead = 5e-7, .gap = 1e-7, .byte = 1e-9, .fold = 0, .ports = 1};
  for (const int p : {2, 3, 16, 33}) {
    CHECK(time_of<barrier, dissemination>(p, 0, net) == about(detail::ceil_log2(p) * 3e-6));
  }
}

TEST_CASE("one rank alone is done at once") {
  CHECK(simulate(schedule_for<allreduce, ring>{}, 1, 100, network{}) == simulation_result{});
  CHECK(simulate(schedule_for<allreduce, binomial>{}, 1, 100, network{}) == simulation_result{});
}
