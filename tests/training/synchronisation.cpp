// SPDX-License-Identifier: BSL-1.0
#include "trainer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace {

constexpr int steps = 12;
constexpr double rate = 0.2;
constexpr double decay = 0.8;

/// Every rank must hold exactly `expected`.
template <class T>
void check_all(const std::vector<std::vector<T>>& results, const std::vector<T>& expected) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    CAPTURE(rank);
    CHECK(results[rank] == expected);
  }
}

/// The largest difference between two vectors.
template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

/// All policies that add in rank order, with one rule.
template <class T, class Rule>
void check_ordered(Rule rule, problem::rule which, std::size_t count, int ranks) {
  CAPTURE(count);
  CAPTURE(ranks);
  const auto expected = problem::reference<T>(which, rate, decay, count, ranks, steps);
  check_all(trained<T>(rule, tutti::all_reduce<tutti::naive>{}, count, ranks, steps), expected);
  check_all(trained<T>(rule, tutti::all_reduce<tutti::flat>{}, count, ranks, steps), expected);
  check_all(trained<T>(rule, tutti::all_reduce<tutti::single_master>{}, count, ranks, steps), expected);
  for (int server = 0; server < ranks; ++server) {
    CAPTURE(server);
    check_all(trained<T>(rule, tutti::parameter_server<tutti::single_master>{server}, count, ranks, steps, server),
              expected);
    check_all(trained<T>(rule, tutti::parameter_server<tutti::flat>{server}, count, ranks, steps, server), expected);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("policies that add in rank order give the bits of one loop, whatever the batches", T, float,
                   double) {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const std::size_t count : {1U, 3U, 257U}) {
      check_ordered<T>(tutti::plain{rate}, problem::rule::plain, count, ranks);
      check_ordered<T>(tutti::momentum{rate, decay}, problem::rule::momentum, count, ranks);
      check_ordered<T>(tutti::nesterov{rate, decay}, problem::rule::nesterov, count, ranks);
    }
  }
}

TEST_CASE("policies that add along the aligned binary tree agree to the bit") {
  const tutti::momentum rule{rate, decay};
  for (const int ranks : {2, 4, 8}) {
    CAPTURE(ranks);
    const auto all = trained<float>(rule, tutti::all_reduce<tutti::recursive_doubling>{}, 257, ranks, steps);
    check_all(all, all.front());
    for (int server = 0; server < ranks; ++server) {
      CAPTURE(server);
      check_all(trained<float>(rule, tutti::parameter_server<tutti::binomial>{server}, 257, ranks, steps, server),
                all.front());
    }
  }
}

TEST_CASE("every algorithm leaves all ranks with the same bits, near those of rank order") {
  const tutti::momentum rule{rate, decay};
  const auto check = [&](auto sync, int ranks) {
    const auto results = trained<double>(rule, sync, 100, ranks, steps);
    check_all(results, results.front());
    const auto expected = problem::reference<double>(problem::rule::momentum, rate, decay, 100, ranks, steps);
    CHECK(distance(results.front(), expected) < 1e-13);
  };
  for (const int ranks : {1, 2, 3, 4, 7}) {
    CAPTURE(ranks);
    check(tutti::all_reduce<>{}, ranks);
    check(tutti::all_reduce<tutti::ring>{}, ranks);
    check(tutti::all_reduce<tutti::circulant>{}, ranks);
    check(tutti::all_reduce<tutti::halving_doubling>{}, ranks);
    check(tutti::all_reduce<tutti::recursive_doubling>{}, ranks);
    check(tutti::parameter_server<>{}, ranks);
    check(tutti::parameter_server<tutti::ring>{}, ranks);
    check(tutti::parameter_server<tutti::circulant>{}, ranks);
    check(tutti::parameter_server<tutti::binomial>{}, ranks);
  }
}

TEST_CASE("1, 2, 3 and 4 ranks with the same samples differ by rounding only") {
  // Step k takes the samples of four imagined workers; p ranks share them out. The gradients do not depend on the
  // weights, so the difference has a plain bound. With u = 2^-24, G the largest mean of |g| and W the largest |w|: a
  // sum of S terms in any order is off by at most (S - 1) u of the sum of their magnitudes, the division, the product
  // and the subtraction by u each. A step thus adds at most rate (S + 2) u G + u W, and two runs differ by twice that a
  // step.
  constexpr std::size_t count = 200;
  constexpr std::size_t batch = 24;
  constexpr int long_run = 50;
  const auto sample = [](int step, std::size_t s, std::size_t i) {
    return problem::noise<float>(static_cast<std::uint64_t>(step), s, i);
  };
  std::vector<std::vector<float>> results;
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<float> result;
    tutti::run(ranks, [&](auto& comm) {
      std::vector<float> weights = problem::first_weights<float>(count);
      std::vector<float> gradient(count);
      tutti::sgd optimizer(comm, weights, tutti::plain{rate}, tutti::all_reduce<tutti::naive>{});
      const tutti::layout shares(batch, comm.size());
      const std::size_t first = shares.offset(comm.rank());
      for (int step = 0; step < long_run; ++step) {
        std::fill(gradient.begin(), gradient.end(), 0.0F);
        for (std::size_t s = first; s < first + shares.size(comm.rank()); ++s) {
          for (std::size_t i = 0; i < count; ++i) gradient[i] += sample(step, s, i);
        }
        optimizer.step(gradient, shares.size(comm.rank()));
      }
      if (comm.rank() == 0) result = weights;
    });
    results.push_back(result);
  }

  double largest_mean = 0;
  double largest_weight = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto weight = static_cast<double>(problem::first_weights<float>(count)[i]);
    for (int step = 0; step < long_run; ++step) {
      double sum = 0;
      double magnitudes = 0;
      for (std::size_t s = 0; s < batch; ++s) {
        sum += static_cast<double>(sample(step, s, i));
        magnitudes += std::abs(static_cast<double>(sample(step, s, i)));
      }
      largest_mean = std::max(largest_mean, magnitudes / batch);
      weight -= rate * sum / batch;
      largest_weight = std::max(largest_weight, std::abs(weight));
    }
  }
  const double bound = 2 * long_run * 0x1p-24 * (rate * (batch + 2) * largest_mean + largest_weight);
  for (std::size_t r = 1; r < results.size(); ++r) {
    CAPTURE(r);
    CHECK(distance(results[r], results.front()) <= bound);
  }
  CHECK(bound < 1e-4);  // or it would say nothing
}

TEST_CASE("on a problem that pulls the weights back, the ranks' number does not matter to 1e-5") {
  const auto sample = [](std::size_t s, std::size_t i) { return problem::noise<float>(5, s, i); };
  std::vector<std::vector<float>> results;
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<float> result;
    tutti::run(ranks, [&](auto& comm) {
      std::vector<float> weights(50);
      std::vector<float> gradient(weights.size());
      tutti::sgd optimizer(comm, weights, tutti::nesterov{.rate = 0.1},
                           tutti::parameter_server<tutti::single_master>{});
      const tutti::layout shares(30, comm.size());
      const std::size_t first = shares.offset(comm.rank());
      for (int step = 0; step < 300; ++step) {
        std::fill(gradient.begin(), gradient.end(), 0.0F);
        for (std::size_t s = first; s < first + shares.size(comm.rank()); ++s) {
          for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] += weights[i] - sample(s, i);
        }
        optimizer.step(gradient, shares.size(comm.rank()));
      }
      if (comm.rank() == 0) result = weights;
    });
    results.push_back(result);
  }
  for (std::size_t i = 0; i < results.front().size(); ++i) {
    float mean = 0;  // where the squared distance to all samples is least
    for (std::size_t s = 0; s < 30; ++s) mean += sample(s, i) / 30;
    for (const auto& result : results) CHECK(std::abs(result[i] - mean) < 1e-5F);
  }
}

TEST_CASE("samples are weighed, not ranks") {
  tutti::run(3, [](auto& comm) {
    // Rank 0 has one sample with gradient 8, rank 2 three with gradient 4, rank 1 none: the mean is 20 / 4.
    const std::size_t samples[] = {1, 0, 3};
    const double sums[] = {8, 12345, 12};
    const auto rank = static_cast<std::size_t>(comm.rank());
    const auto step = [&](auto sync) {
      std::vector<double> weights{100.0};
      std::vector<double> gradient{sums[rank]};
      tutti::sgd optimizer(comm, weights, tutti::plain{.rate = 1}, sync);
      optimizer.step(gradient, samples[rank]);
      if (weights[0] != 95.0) throw std::runtime_error("weight is " + std::to_string(weights[0]));
    };
    step(tutti::all_reduce<>{});
    step(tutti::parameter_server<>{});
    step(tutti::parameter_server<>{1});
  });
}

TEST_CASE("a step without a sample on any rank changes neither weights nor velocity") {
  tutti::run(2, [](auto& comm) {
    const auto weight_after = [&](auto sync, bool with_pause) {
      std::vector<double> weights{1.0};
      tutti::sgd optimizer(comm, weights, tutti::momentum{.rate = 0.5, .decay = 0.5}, sync);
      for (const std::size_t samples : {2U, 0U, 2U}) {
        if (samples == 0 && !with_pause) continue;
        std::vector<double> gradient{samples == 0 ? std::nan("") : 1.0};
        optimizer.step(gradient, samples);
      }
      return weights[0];
    };
    const auto check = [&](auto sync) {
      const double paused = weight_after(sync, true);
      if (paused != weight_after(sync, false)) throw std::runtime_error("weight is " + std::to_string(paused));
    };
    check(tutti::all_reduce<>{});
    check(tutti::parameter_server<>{});
  });
}
