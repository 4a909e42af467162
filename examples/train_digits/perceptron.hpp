// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "images.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace digits {

/// A perceptron of two layers: pixels, hidden units with max(0, x), ten classes with softmax and cross-entropy.
///
/// It owns no parameters: they are one span, so that a collective can move them: the weights of layer 1 (a row for each
/// pixel), its biases, the weights of layer 2 (a row for each hidden unit), its biases.
class perceptron {
 public:
  static constexpr std::size_t hidden = 64;

  perceptron(std::size_t inputs, int brightest)
      : inputs_(inputs), scale_(1.0F / static_cast<float>(brightest)), hidden_(hidden), slope_(hidden) {}

  std::size_t parameters() const { return inputs_ * hidden + hidden + hidden * outputs + outputs; }

  /// Random weights by the seed (He et al. 2015: variance 2 / inputs), biases 0.
  void initialise(std::span<float> parameters, std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    const auto fill = [&](std::span<float> weights, std::size_t inputs) {
      const double bound = std::sqrt(6.0 / static_cast<double>(inputs));
      for (float& w : weights) {
        // The top 53 bits make a double in [0, 1); standard distributions may differ between libraries.
        w = static_cast<float>(bound * (2.0 * static_cast<double>(random() >> 11) * 0x1p-53 - 1.0));
      }
    };
    std::fill(parameters.begin(), parameters.end(), 0.0F);
    fill(parameters.first(inputs_ * hidden), inputs_);
    fill(parameters.subspan(second_layer(), hidden * outputs), hidden);
  }

  struct outcome {
    double loss;  // cross-entropy, in nats
    bool correct;
  };

  /// What the network makes of an image.
  outcome examine(std::span<const float> parameters, std::span<const std::uint8_t> image, int label) {
    const float* const biases1 = parameters.data() + inputs_ * hidden;
    std::copy(biases1, biases1 + hidden, hidden_.begin());
    for (std::size_t i = 0; i < inputs_; ++i) {
      // Most pixels of a digit are blank.
      if (image[i] != 0) add_scaled(hidden_.data(), parameters.data() + i * hidden, scale_ * image[i], hidden);
    }
    for (float& h : hidden_) h = std::max(h, 0.0F);

    const float* const weights2 = parameters.data() + second_layer();
    std::copy(weights2 + hidden * outputs, weights2 + (hidden + 1) * outputs, output_);
    for (std::size_t j = 0; j < hidden; ++j) add_scaled(output_, weights2 + j * outputs, hidden_[j], outputs);

    const float* const best = std::max_element(output_, output_ + outputs);
    const float most = *best;
    const float chosen = output_[label];
    const bool correct = best == output_ + label;
    float sum = 0;
    for (float& o : output_) sum += o = std::exp(o - most);  // after subtracting the largest none overflows
    for (float& o : output_) o /= sum;
    return {std::log(static_cast<double>(sum)) - (static_cast<double>(chosen) - static_cast<double>(most)), correct};
  }

  /// The same, and adds the gradient of the loss to `gradient`.
  outcome learn(std::span<const float> parameters, std::span<const std::uint8_t> image, int label,
                std::span<float> gradient) {
    const outcome seen = examine(parameters, image, label);
    output_[label] -= 1.0F;  // now the gradient at the softmax's inputs

    const float* const weights2 = parameters.data() + second_layer();
    float* const gradient2 = gradient.data() + second_layer();
    for (std::size_t j = 0; j < hidden; ++j) {
      slope_[j] = 0;
      if (hidden_[j] > 0) {
        add_scaled(gradient2 + j * outputs, output_, hidden_[j], outputs);
        for (std::size_t c = 0; c < outputs; ++c) slope_[j] += weights2[j * outputs + c] * output_[c];
      }
    }
    add_scaled(gradient2 + hidden * outputs, output_, 1.0F, outputs);

    for (std::size_t i = 0; i < inputs_; ++i) {
      if (image[i] != 0) add_scaled(gradient.data() + i * hidden, slope_.data(), scale_ * image[i], hidden);
    }
    add_scaled(gradient.data() + inputs_ * hidden, slope_.data(), 1.0F, hidden);
    return seen;
  }

 private:
  static constexpr std::size_t outputs = classes;

  std::size_t second_layer() const { return (inputs_ + 1) * hidden; }

  static void add_scaled(float* __restrict to, const float* __restrict from, float factor, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
  }

  std::size_t inputs_;
  float scale_;
  std::vector<float> hidden_;
  std::vector<float> slope_;  // gradient at the hidden units' inputs
  float output_[outputs] = {};
};

}  // namespace digits
