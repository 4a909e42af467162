// SPDX-License-Identifier: BSL-1.0
#include <tutti/training/momentum.hpp>
#include <tutti/training/nesterov.hpp>
#include <tutti/training/plain.hpp>
#include <tutti/training/update_rule.hpp>

#include "problem.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace {

/// One rank's training without any library but the rule.
template <class T, class Rule>
std::vector<T> alone(const Rule& rule, std::size_t count, int steps) {
  std::vector<T> weights = problem::first_weights<T>(count);
  std::vector<T> gradient(count);
  typename Rule::template state<T> memory(count);
  for (int step = 0; step < steps; ++step) {
    if (problem::samples(0, step) == 0) continue;
    problem::gradient<T>(0, step, weights, gradient);
    for (T& g : gradient) g /= static_cast<T>(problem::samples(0, step));
    rule.update(memory, std::span<T>(weights), std::span<const T>(gradient));
  }
  return weights;
}

struct no_state {
  void update(int, std::span<float>, std::span<const float>) const {}
};
struct state_without_size {
  template <class T>
  struct state {};
  template <class T>
  void update(state<T>&, std::span<T>, std::span<const T>) const {}
};
struct writes_gradient {
  template <class T>
  struct state {
    explicit state(std::size_t) {}
  };
  template <class T>
  void update(state<T>&, std::span<T>, std::span<T>) const {}
};

static_assert(tutti::update_rule<tutti::plain, float> && tutti::update_rule<tutti::plain, double>);
static_assert(tutti::update_rule<tutti::momentum, float> && tutti::update_rule<tutti::nesterov, long double>);
static_assert(!tutti::update_rule<tutti::plain, int>, "means of integers are not exact");
static_assert(!tutti::update_rule<no_state, float>);
static_assert(!tutti::update_rule<state_without_size, float>);
static_assert(!tutti::update_rule<writes_gradient, float>);

}  // namespace

TEST_CASE_TEMPLATE("each rule does what its formula says, to the bit", T, float, double) {
  for (const std::size_t count : {0U, 1U, 3U, 64U, 1003U}) {
    for (const double decay : {0.0, 0.5, 0.9}) {
      CAPTURE(count);
      CAPTURE(decay);
      const auto expected = [&](problem::rule which) { return problem::reference<T>(which, 0.1, decay, count, 1, 20); };
      CHECK(alone<T>(tutti::plain{.rate = 0.1}, count, 20) == expected(problem::rule::plain));
      CHECK(alone<T>(tutti::momentum{.rate = 0.1, .decay = decay}, count, 20) == expected(problem::rule::momentum));
      CHECK(alone<T>(tutti::nesterov{.rate = 0.1, .decay = decay}, count, 20) == expected(problem::rule::nesterov));
    }
  }
}

TEST_CASE("rules by hand: two steps with gradient 1 from weight 0, rate 1, decay 0.5") {
  const auto weight_after_two = [](const auto& rule) {
    std::vector<double> weight{0.0};
    const std::vector<double> gradient{1.0};
    typename std::remove_cvref_t<decltype(rule)>::template state<double> memory(1);
    for (int step = 0; step < 2; ++step) {
      rule.update(memory, std::span<double>(weight), std::span<const double>(gradient));
    }
    return weight[0];
  };
  CHECK(weight_after_two(tutti::plain{.rate = 1}) == -2.0);
  // Velocities 1 and 1.5.
  CHECK(weight_after_two(tutti::momentum{.rate = 1, .decay = 0.5}) == -2.5);
  // Steps 1 + 0.5 * 1 and 1 + 0.5 * 1.5.
  CHECK(weight_after_two(tutti::nesterov{.rate = 1, .decay = 0.5}) == -3.25);
}

TEST_CASE("with decay 0 momentum and Nesterov are the plain rule") {
  const auto plain = alone<float>(tutti::plain{.rate = 0.05}, 100, 10);
  CHECK(alone<float>(tutti::momentum{.rate = 0.05, .decay = 0}, 100, 10) == plain);
  CHECK(alone<float>(tutti::nesterov{.rate = 0.05, .decay = 0}, 100, 10) == plain);
}
