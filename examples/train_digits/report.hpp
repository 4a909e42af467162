// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "images.hpp"
#include "loss_chart.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <fstream>
#include <vector>

namespace digits {

/// What there is to see of a training, on the rank that shows it: a line for each epoch, then the picture.
class report {
 public:
  /// The picture goes to `chart`, which is open.
  report(const task& work, const options& wanted, std::ofstream& chart)
      : work_(work), wanted_(wanted), chart_(chart), lines_(stdout, wanted.epochs) {}

  /// Says, before the ranks begin, what is to be done.
  static void begin(const task& work, const options& wanted);
  void epoch_done(int epoch, const epoch_result& result) {
    results_.push_back(result);
    lines_.epoch_done(epoch, result);
  }
  /// After the last epoch. Throws `input_error` if the picture cannot be written.
  void finish();

 private:
  const task& work_;
  const options& wanted_;
  std::ofstream& chart_;
  std::vector<epoch_result> results_;
  progress lines_;
};

}  // namespace digits
