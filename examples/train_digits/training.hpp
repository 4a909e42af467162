// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "images.hpp"
#include "loss_chart.hpp"
#include "options.hpp"
#include "perceptron.hpp"

#include <tutti/tutti.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace digits {

/// One step of an optimizer: the sum of the gradients of so many samples goes in, new weights come out. Not a template
/// parameter, so that one loop serves all combinations of rule, synchronisation and algorithm.
using step_function = std::function<void(std::span<float> gradient, std::size_t samples)>;

/// Trains on this rank's share of every batch. Collective. `on_epoch(number, result)` is called on every rank with the
/// same result. Throws `std::runtime_error` when the loss is no longer a number.
template <class Communicator, class OnEpoch>
void train(Communicator& comm, const task& work, const options& wanted, perceptron& network,
           std::span<const float> weights, const step_function& step, OnEpoch on_epoch) {
  const images& training = work.training;
  const images& held_out = work.held_out;
  auto gradient = comm.template allocate<float>(weights.size());

  for (int epoch = 1; epoch <= wanted.epochs; ++epoch) {
    enum { training_loss, held_out_loss, held_out_right };
    std::array<double, 3> sums{};

    // Every rank shuffles alike, then learns from its own block of each batch.
    const auto order = shuffled(training.count(), wanted.seed + static_cast<std::uint64_t>(epoch));
    for (std::size_t begin = 0; begin < training.count(); begin += wanted.batch) {
      const tutti::layout shares(std::min(wanted.batch, training.count() - begin), comm.size());
      const std::size_t first = begin + shares.offset(comm.rank());
      const std::size_t samples = shares.size(comm.rank());
      std::fill(gradient.begin(), gradient.end(), 0.0F);
      for (std::size_t i = first; i < first + samples; ++i) {
        sums[training_loss] += network.learn(weights, training[order[i]], training.labels[order[i]], gradient).loss;
      }
      step(gradient, samples);
    }

    const tutti::layout shares(held_out.count(), comm.size());
    const std::size_t first = shares.offset(comm.rank());
    for (std::size_t i = first; i < first + shares.size(comm.rank()); ++i) {
      const auto seen = network.examine(weights, held_out[i], held_out.labels[i]);
      sums[held_out_loss] += seen.loss;
      sums[held_out_right] += seen.correct ? 1 : 0;
    }
    tutti::allreduce(comm, sums, std::plus<>{});
    const epoch_result result{sums[training_loss] / static_cast<double>(training.count()),
                              sums[held_out_loss] / static_cast<double>(held_out.count()),
                              sums[held_out_right] / static_cast<double>(held_out.count())};
    if (!std::isfinite(result.training_loss) || !std::isfinite(result.held_out_loss)) {
      throw std::runtime_error("the loss is not finite after epoch " + std::to_string(epoch) + ": try a lower --rate");
    }
    on_epoch(epoch, result);
  }
}

}  // namespace digits
