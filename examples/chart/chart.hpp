// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

/// Charts as SVG pictures, as wide as a page. Colours that the colour-blind can tell apart; more than seven lines are
/// dashed as well. The legend stands above the frame, where no line can run through it.
namespace chart {

enum class scale {
  linear,
  decades,  ///< logarithmic, ticks at 1, 2, 5 times powers of ten
  octaves   ///< logarithmic, ticks at powers of two
};

/// How an axis writes its numbers.
enum class unit { none, seconds, bytes };

struct axis {
  std::string label;
  chart::scale scale = chart::scale::linear;
  chart::unit unit = chart::unit::none;
};

struct point {
  double x;
  double y;
};

struct line {
  std::string name;
  std::vector<point> points;  // from left to right
};

/// Lines over common axes. Needs at least one point; numbers on logarithmic axes are above 0.
std::string lines(const std::string& title, const std::string& subtitle, const axis& x, const axis& y,
                  const std::vector<line>& all);

/// Which of several is best where: a field of coloured cells.
struct field {
  std::vector<double> x;           // ascending, the centres of the columns
  std::vector<double> y;           // ascending, the centres of the rows
  std::vector<std::string> names;  // of what a cell can be
  std::vector<int> cells;          // an index into names for each row and column: cells[row * columns + column]
};

/// The field over logarithmic axes, with each name written into its largest region where there is room.
std::string map(const std::string& title, const std::string& subtitle, const axis& x, const axis& y, const field& all);

/// A number with as many digits as it takes to tell it from its neighbours, and its unit: 0.05, 20 us, 4 KiB.
std::string text_of(double value, unit in);

}  // namespace chart
