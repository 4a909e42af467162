// SPDX-License-Identifier: BSL-1.0
// Trains a perceptron of two layers on images of digits, data-parallel. `train_digits --help` lists the flags.

#include "choice.hpp"
#include "images.hpp"
#include "loss_chart.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "training.hpp"

#include <tutti/training/sgd.hpp>
#include <tutti/tutti.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace digits {
namespace {

task load(const options& wanted) {
  if (wanted.images.empty())
    return hold_out_fifth(read_csv(wanted.data.empty() ? TRAIN_DIGITS_DATA : wanted.data), wanted.seed);
  images training = read_idx(wanted.images, wanted.labels);
  if (wanted.test_images.empty()) return hold_out_fifth(training, wanted.seed);
  images held_out = read_idx(wanted.test_images, wanted.test_labels);
  if (training.width != held_out.width || training.height != held_out.height) {
    const auto shape = [](const images& i) { return std::to_string(i.width) + "x" + std::to_string(i.height); };
    throw input_error(wanted.test_images + " holds images of " + shape(held_out) + " pixels, but " + wanted.images +
                      " of " + shape(training));
  }
  return {std::move(training), std::move(held_out)};
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

int run(const options& wanted) {
  check_names(wanted);
  const task work = load(wanted);
  // Better to know now than after the training.
  std::ofstream chart(wanted.chart);
  if (!chart) throw input_error(wanted.chart + ": cannot be written");

  const std::string network = std::to_string(work.training.pixels_each()) + "-" + std::to_string(perceptron::hidden) +
                              "-" + std::to_string(classes);
  std::printf("%zu training and %zu held-out images of %zux%zu pixels\n", work.training.count(), work.held_out.count(),
              work.training.width, work.training.height);
  std::printf("%s perceptron, %d ranks (%s), %s by %s, %s, batch %zu, rate %g\n", network.c_str(), wanted.ranks,
              wanted.transport.c_str(), wanted.sync.c_str(), wanted.algorithm.c_str(), wanted.rule.c_str(),
              wanted.batch, wanted.rate);

  std::vector<epoch_result> results;
  progress shown(stdout, wanted.epochs);
  with_transport(wanted, [&](auto& comm) {
    const auto on_epoch = [&](int epoch, const epoch_result& result) {
      if (comm.rank() != 0) return;
      results.push_back(result);
      shown.epoch_done(epoch, result);
    };
    perceptron model(work.training.pixels_each(), work.training.brightest);
    std::vector<float> weights(model.parameters());
    model.initialise(weights, wanted.seed);
    with_rule(wanted, [&](auto rule) {
      with_sync(wanted, [&](auto sync) {
        tutti::sgd optimizer(comm, weights, rule, sync);
        const auto step = [&](std::span<float> gradient, std::size_t samples) { optimizer.step(gradient, samples); };
        train(comm, work, wanted, model, weights, step, on_epoch);
      });
    });
  });
  shown.finish();

  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "%.3f", results.back().accuracy);
  chart << loss_chart(results, "Loss of a " + network + " perceptron: " + accuracy + " of the held-out images right",
                      std::to_string(work.training.count()) + " training images, " + std::to_string(wanted.ranks) +
                          " ranks, " + wanted.sync + " by " + wanted.algorithm + ", " + wanted.rule + ", batch " +
                          std::to_string(wanted.batch) + ", rate " + number(wanted.rate));
  chart.close();
  if (!chart) throw input_error(wanted.chart + ": cannot be written");
  std::printf("loss curve in %s\n", wanted.chart.c_str());
  std::printf("accuracy %s\n", accuracy);
  return 0;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    const digits::options wanted = digits::parse(argc, argv);
    if (wanted.help) {
      std::fputs(digits::help().c_str(), stdout);
      return 0;
    }
    return digits::run(wanted);
  } catch (const digits::input_error& wrong) {
    std::fprintf(stderr, "train_digits: %s\n", wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "train_digits: %s\n", failed.what());
    return 1;
  }
}
