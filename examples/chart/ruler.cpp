// SPDX-License-Identifier: BSL-1.0
#include "ruler.hpp"

#include <algorithm>
#include <cmath>

namespace chart {
namespace {

/// 1, 2, 5 times powers of ten, or the powers alone where the range is wide, from one at or below `least` to one at or
/// above `most`.
std::vector<double> decades(double least, double most) {
  const double range = std::log10(most / least);
  const int from = static_cast<int>(std::floor(std::log10(least)));
  const int to = static_cast<int>(std::ceil(std::log10(most))) + 1;
  std::vector<double> ticks;
  for (int power = from - 1; power <= to; ++power) {
    for (const int step : {1, 2, 5}) {
      if (range <= 2.5 || step == 1) ticks.push_back(step * std::pow(10.0, power));
    }
  }
  return ticks;
}

/// Powers of two, twelve at most.
std::vector<double> octaves(double least, double most) {
  const int from = static_cast<int>(std::floor(std::log2(least)));
  const int to = static_cast<int>(std::ceil(std::log2(most)));
  const int step = std::max((to - from + 11) / 12, 1);
  std::vector<double> ticks;
  for (int power = from; power < to + step; power += step) ticks.push_back(std::exp2(power));
  return ticks;
}

/// Multiples of 1, 2 or 5 times a power of ten, ten at most.
std::vector<double> multiples(double least, double most) {
  double step = std::pow(10.0, std::floor(std::log10((most - least) / 10)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if ((most - least) / (step * factor) <= 10) {
      step *= factor;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::floor(least / step); (i - 1) * step < most; ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace

ruler::ruler(scale kind, double least, double most, double from, double to, bool whole_ticks)
    : logarithmic_{kind != scale::linear}, least_{least}, most_{most}, from_{from}, to_{to} {
  if (most_ <= least_) most_ = logarithmic_ ? least_ * 2 : least_ + 1;
  ticks_ = kind == scale::decades   ? decades(least_, most_)
           : kind == scale::octaves ? octaves(least_, most_)
                                    : multiples(least_, most_);
  if (whole_ticks) {
    // Keep one tick at or below the least and one at or above the most.
    while (ticks_.size() > 2 && ticks_[1] <= least_) ticks_.erase(ticks_.begin());
    while (ticks_.size() > 2 && ticks_[ticks_.size() - 2] >= most_) ticks_.pop_back();
    least_ = std::min(least_, ticks_.front());
    most_ = std::max(most_, ticks_.back());
  } else {
    const double step = ticks_[1] - ticks_[0];
    std::erase_if(ticks_, [&](double t) { return t < least_ * (1 - 1e-9) || t > most_ * (1 + 1e-9); });
    // Where the axis begins is worth knowing too.
    if (!logarithmic_ && (ticks_.empty() || ticks_.front() - least_ > step / 2)) ticks_.insert(ticks_.begin(), least_);
  }
}

double ruler::at(double value) const {
  const double share =
      logarithmic_ ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
  return from_ + share * (to_ - from_);
}

}  // namespace chart
