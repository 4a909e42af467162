// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>

namespace tutti {

/// Gradient descent as it is: `w -= rate * g`. Remembers nothing.
struct plain {
  double rate;

  template <class T>
  struct state {
    explicit state(std::size_t) {}
  };

  template <class T>
  void update(state<T>&, std::span<T> parameters, std::span<const T> gradient) const {
    const T eta = static_cast<T>(rate);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= eta * gradient[i];
  }
};

}  // namespace tutti
