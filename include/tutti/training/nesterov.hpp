// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti {

/// Gradient descent with Nesterov's momentum, in the form that takes the gradient at the parameters themselves
/// (Sutskever et al. 2013): `v = decay * v + g`, then `w -= rate * (g + decay * v)`. Remembers one element for each
/// parameter, 0 at first.
struct nesterov {
  double rate;
  double decay = 0.9;

  template <class T>
  struct state {
    explicit state(std::size_t count) : velocity(count) {}
    std::vector<T> velocity;
  };

  template <class T>
  void update(state<T>& memory, std::span<T> parameters, std::span<const T> gradient) const {
    const T eta = static_cast<T>(rate);
    const T mu = static_cast<T>(decay);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      T& v = memory.velocity[i];
      v = mu * v + gradient[i];
      parameters[i] -= eta * (gradient[i] + mu * v);
    }
  }
};

}  // namespace tutti
