// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "problem.hpp"

#include <tutti/training/all_reduce.hpp>
#include <tutti/training/momentum.hpp>
#include <tutti/training/nesterov.hpp>
#include <tutti/training/parameter_server.hpp>
#include <tutti/training/plain.hpp>
#include <tutti/training/sgd.hpp>
#include <tutti/tutti.hpp>

#include <cstddef>
#include <vector>

/// Trains on `problem` with `ranks` threads and returns every rank's weights. Ranks other than `teacher` begin with
/// rubbish.
template <class T, class Rule, class Sync>
std::vector<std::vector<T>> trained(Rule rule, Sync sync, std::size_t count, int ranks, int steps, int teacher = 0) {
  std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
  tutti::run(ranks, [&](auto& comm) {
    std::vector<T> weights(count, T{-99});
    if (comm.rank() == teacher) weights = problem::first_weights<T>(count);
    tutti::sgd optimizer(comm, weights, rule, sync);
    std::vector<T> gradient(count);
    for (int step = 0; step < steps; ++step) {
      problem::gradient<T>(comm.rank(), step, weights, gradient);
      optimizer.step(gradient, problem::samples(comm.rank(), step));
    }
    results[static_cast<std::size_t>(comm.rank())] = weights;
  });
  return results;
}
