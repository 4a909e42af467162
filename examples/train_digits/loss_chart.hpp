// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

namespace digits {

/// What an epoch came to. Losses are mean cross-entropies in nats.
struct epoch_result {
  double training_loss;
  double held_out_loss;
  double accuracy;  // share of the held-out images that were right
};

/// The loss curves as an SVG picture: epochs to the right, losses upward on a logarithmic axis. Needs at least one
/// epoch, losses finite and not negative.
std::string loss_chart(const std::vector<epoch_result>& epochs, const std::string& title, const std::string& subtitle);

}  // namespace digits
