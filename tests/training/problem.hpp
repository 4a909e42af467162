// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace problem {

/// Samples that rank `rank` has in step `step`: uneven, and now and then none.
inline std::size_t samples(int rank, int step) {
  const int n = (7 * rank + 5 * step + 3) % 6;
  return static_cast<std::size_t>(n);
}

/// A number in [-1, 1) that looks random: most sums of such numbers must round.
template <class T>
T noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b * 0xC2B2AE3D27D4EB4FULL + c * 0x165667B19E3779F9ULL + 1;
  x ^= x >> 31;
  x *= 0xD6E8FEB86659FD93ULL;
  x ^= x >> 32;
  return static_cast<T>(static_cast<double>(x >> 11) * 0x1p-52 - 1.0);
}

template <class T>
std::vector<T> first_weights(std::size_t count) {
  std::vector<T> weights(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = noise<T>(17, i, 4);
  return weights;
}

/// Adds up the gradients of this rank's samples; nothing but NaN where there are none.
template <class T>
void gradient(int rank, int step, std::span<const T> weights, std::span<T> sum) {
  const std::size_t count = samples(rank, step);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = count == 0 ? std::numeric_limits<T>::quiet_NaN() : T{0};
    for (std::size_t s = 0; s < count; ++s) {
      sum[i] += weights[i] - noise<T>(static_cast<std::uint64_t>(rank) * 1000 + s, static_cast<std::uint64_t>(step), i);
    }
  }
}

/// The update rules once more, written out.
enum class rule { plain, momentum, nesterov };

/// What `ranks` ranks must come to, in one loop: the sums of the ranks added in rank order, one division, one update.
template <class T>
std::vector<T> reference(rule which, double rate, double decay, std::size_t count, int ranks, int steps) {
  std::vector<T> weights = first_weights<T>(count);
  std::vector<T> velocity(count, T{0});
  std::vector<T> of_rank(count);
  const T eta = static_cast<T>(rate);
  const T mu = static_cast<T>(decay);
  for (int step = 0; step < steps; ++step) {
    std::vector<T> total(count);
    std::size_t batch = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      gradient<T>(rank, step, weights, of_rank);
      batch += samples(rank, step);
      for (std::size_t i = 0; i < count; ++i) {
        const T mine = samples(rank, step) == 0 ? T{0} : of_rank[i];
        total[i] = rank == 0 ? mine : total[i] + mine;
      }
    }
    if (batch == 0) continue;
    for (std::size_t i = 0; i < count; ++i) {
      const T mean = total[i] / static_cast<T>(batch);
      switch (which) {
        case rule::plain:
          weights[i] = weights[i] - eta * mean;
          break;
        case rule::momentum:
          velocity[i] = mu * velocity[i] + mean;
          weights[i] = weights[i] - eta * velocity[i];
          break;
        case rule::nesterov:
          velocity[i] = mu * velocity[i] + mean;
          weights[i] = weights[i] - eta * (mean + mu * velocity[i]);
          break;
      }
    }
  }
  return weights;
}

}  // namespace problem
