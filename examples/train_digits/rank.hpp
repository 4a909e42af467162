// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "choice.hpp"
#include "images.hpp"
#include "options.hpp"
#include "perceptron.hpp"
#include "report.hpp"
#include "training.hpp"

#include <tutti/training/sgd.hpp>
#include <tutti/transport/processes.hpp>
#include <tutti/transport/threads.hpp>

#include <cstddef>
#include <fstream>
#include <optional>
#include <span>

namespace digits {

/// What one rank does, on any transport.
template <class Communicator>
void train_rank(Communicator& comm, const task& work, const options& wanted, std::ofstream& chart) {
  // What there is to see stays on one rank: others that are processes would write to memory of their own.
  std::optional<report> shown;
  if (comm.rank() == 0) shown.emplace(work, wanted, chart);
  const auto on_epoch = [&](int epoch, const epoch_result& result) {
    if (shown) shown->epoch_done(epoch, result);
  };
  perceptron model(work.training.pixels_each(), work.training.brightest);
  auto weights = comm.template allocate<float>(model.parameters());
  model.initialise(weights, wanted.seed);
  with_rule(wanted, [&](auto rule) {
    with_sync(wanted, [&](auto sync) {
      tutti::sgd optimizer(comm, weights, rule, sync);
      const auto step = [&](std::span<float> gradient, std::size_t samples) { optimizer.step(gradient, samples); };
      train(comm, work, wanted, model, weights, step, on_epoch);
    });
  });
  if (shown) shown->finish();
}

// Compiled with the others of their transport.
extern template void train_rank(tutti::communicator<tutti::threads>&, const task&, const options&, std::ofstream&);
extern template void train_rank(tutti::communicator<tutti::processes>&, const task&, const options&, std::ofstream&);

}  // namespace digits
