// SPDX-License-Identifier: BSL-1.0
#include "loss_chart.hpp"

#include "../chart/chart.hpp"

#include <algorithm>

namespace digits {

std::string loss_chart(const std::vector<epoch_result>& epochs, const std::string& title, const std::string& subtitle) {
  chart::line training{"training images, mean over the epoch", {}};
  chart::line held_out{"held-out images, after the epoch", {}};
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    // A loss may round to 0, whose logarithm cannot be drawn.
    const auto epoch = static_cast<double>(i + 1);
    training.points.push_back({epoch, std::max(epochs[i].training_loss, 1e-9)});
    held_out.points.push_back({epoch, std::max(epochs[i].held_out_loss, 1e-9)});
  }
  return chart::lines(title, subtitle, {"epoch", chart::scale::linear, chart::unit::none},
                      {"loss (cross-entropy, nats; log scale)", chart::scale::decades, chart::unit::none},
                      {training, held_out});
}

}  // namespace digits
