// SPDX-License-Identifier: BSL-1.0
#include "report.hpp"

#include "perceptron.hpp"

#include <cstdio>
#include <string>

namespace digits {
namespace {

std::string shape_of(const task& work) {
  return std::to_string(work.training.pixels_each()) + "-" + std::to_string(perceptron::hidden) + "-" +
         std::to_string(classes) + " perceptron";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

void report::begin(const task& work, const options& wanted) {
  std::printf("%zu training and %zu held-out images of %zux%zu pixels\n", work.training.count(), work.held_out.count(),
              work.training.width, work.training.height);
  std::printf("%s, %d ranks (%s), %s by %s, %s, batch %zu, rate %g\n", shape_of(work).c_str(), wanted.ranks,
              wanted.transport.c_str(), wanted.sync.c_str(), wanted.algorithm.c_str(), wanted.rule.c_str(),
              wanted.batch, wanted.rate);
}

void report::finish() {
  lines_.finish();
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "%.3f", results_.back().accuracy);
  chart_ << loss_chart(results_, "Loss of a " + shape_of(work_) + ": " + accuracy + " of the held-out images right",
                       std::to_string(work_.training.count()) + " training images, " + std::to_string(wanted_.ranks) +
                           " ranks, " + wanted_.sync + " by " + wanted_.algorithm + ", " + wanted_.rule + ", batch " +
                           std::to_string(wanted_.batch) + ", rate " + number(wanted_.rate));
  chart_.close();
  if (!chart_) throw input_error(wanted_.chart + ": cannot be written");
  std::printf("loss curve in %s\n", wanted_.chart.c_str());
  std::printf("accuracy %s\n", accuracy);
}

}  // namespace digits
