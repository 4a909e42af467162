// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "chart.hpp"

#include <vector>

namespace chart {

/// An axis laid out: its ticks, and where on it a value stands.
class ruler {
 public:
  /// From the pixel `from` to the pixel `to`. With `whole_ticks` the axis begins and ends at ticks, else at the values.
  ruler(scale kind, double least, double most, double from, double to, bool whole_ticks);

  double at(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  bool logarithmic_;
  double least_;
  double most_;
  double from_;
  double to_;
  std::vector<double> ticks_;
};

}  // namespace chart
