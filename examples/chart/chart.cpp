// SPDX-License-Identifier: BSL-1.0
#include "chart.hpp"

#include "ruler.hpp"
#include "svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace chart {
namespace {

using svg::box;
using svg::left;
using svg::number;
using svg::plot_height;
using svg::right;

std::string stroke(std::size_t i) {
  return "fill=\"none\" stroke-width=\"2.5\" stroke-linejoin=\"round\" stroke=\"" + std::string(svg::colour(i)) +
         "\" stroke-dasharray=\"" + std::string(svg::dashes(i)) + "\"";
}

std::string fill(std::size_t i) { return "fill=\"" + std::string(svg::area_colour(i)) + "\""; }

/// Both axes with their ticks and labels; with `grid` lines across the plot.
std::string axes(const axis& x, const axis& y, const ruler& across, const ruler& up, double top, bool grid) {
  const double bottom = top + plot_height;
  std::string page;
  for (const double tick : up.ticks()) {
    const double at = up.at(tick);
    if (grid) page += svg::line(left, at, right, at, "stroke=\"#ddd\"");
    if (!grid) page += svg::line(left - 5, at, left, at, "stroke=\"#222\"");
    page += svg::text(left - 8, at + 4.5, "text-anchor=\"end\"", text_of(tick, y.unit));
  }
  for (const double tick : across.ticks()) {
    const double at = across.at(tick);
    page += svg::line(at, bottom, at, bottom + 5, "stroke=\"#222\"");
    page += svg::text(at, bottom + 21, "text-anchor=\"middle\"", text_of(tick, x.unit));
  }
  page += svg::line(left, bottom, right, bottom, "stroke=\"#222\"");
  page += svg::line(left, top, left, bottom, "stroke=\"#222\"");
  page += svg::text((left + right) / 2, bottom + 46, "text-anchor=\"middle\"", x.label);
  const std::string middle = number((top + bottom) / 2);
  page +=
      svg::text(svg::margin, (top + bottom) / 2,
                "text-anchor=\"middle\" transform=\"rotate(-90 " + number(svg::margin) + " " + middle + ")\"", y.label);
  return page;
}

/// Cells of one row that are all of one kind.
struct run {
  std::size_t row = 0;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// A run of that kind that `fits`, as deep inside its region as there is, and as long as it can be there.
template <class Fits>
run inner_run(const field& all, int kind, const Fits& fits) {
  const std::size_t columns = all.x.size();
  const auto holds = [&](const run& r, std::size_t row) {
    const int* const cells = &all.cells[row * columns + r.first];
    return std::all_of(cells, cells + r.count, [&](int cell) { return cell == kind; });
  };
  const auto depth = [&](const run& r) {
    std::size_t rows = 0;
    while (r.row >= rows && r.row + rows < all.y.size() && holds(r, r.row - rows) && holds(r, r.row + rows)) ++rows;
    return rows;
  };
  run best;
  std::size_t deepest = 0;
  for (std::size_t row = 0; row < all.y.size(); ++row) {
    for (std::size_t first = 0; first < columns; ++first) {
      run r{row, first, 1};
      while (!fits(r) && r.first + r.count < columns) ++r.count;
      if (!fits(r) || depth(r) <= deepest) continue;
      deepest = depth(r);
      while (r.first + r.count < columns && depth({r.row, r.first, r.count + 1}) == deepest) ++r.count;
      best = r;
    }
  }
  return best;
}

}  // namespace

std::string text_of(double value, unit in) {
  char text[48];
  if (in == unit::seconds && value > 0) {
    struct prefix {
      double size;
      const char* name;
    };
    for (const prefix p : {prefix{1, "s"}, prefix{1e-3, "ms"}, prefix{1e-6, "\xc2\xb5s"}, prefix{1e-9, "ns"}}) {
      if (value < p.size * 0.9995 && p.size > 1e-9) continue;
      std::snprintf(text, sizeof text, "%.4g %s", value / p.size, p.name);
      return text;
    }
  }
  if (in == unit::bytes) {
    constexpr std::array<const char*, 6> names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    std::size_t i = 0;
    while (i + 1 < names.size() && value >= 1024) {
      value /= 1024;
      ++i;
    }
    std::snprintf(text, sizeof text, "%.4g %s", value, names[i]);
    return text;
  }
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string lines(const std::string& title, const std::string& subtitle, const axis& x, const axis& y,
                  const std::vector<line>& all) {
  std::vector<std::string> names;
  double x_least = HUGE_VAL, x_most = -HUGE_VAL, y_least = HUGE_VAL, y_most = -HUGE_VAL;
  std::size_t most_points = 0;
  for (const line& l : all) {
    names.push_back(l.name);
    most_points = std::max(most_points, l.points.size());
    for (const point& p : l.points) {
      x_least = std::min(x_least, p.x);
      x_most = std::max(x_most, p.x);
      y_least = std::min(y_least, p.y);
      y_most = std::max(y_most, p.y);
    }
  }
  double top = 0;
  const auto sample = [](std::size_t i, double at, double height) {
    return svg::line(at, height, at + 28, height, stroke(i));
  };
  std::string page = svg::head(title, subtitle, names, sample, top);
  const ruler across(x.scale, x_least, x_most, left, right - 12, false);
  const ruler up(y.scale, y_least, y_most, top + plot_height, top, true);
  page += axes(x, y, across, up, top, true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<point>& points = all[i].points;
    if (points.empty()) continue;
    std::string list;
    // More points than pixels show nothing more; the last is always shown.
    const std::size_t stride = 1 + points.size() / 2000;
    for (std::size_t k = 0; k < points.size(); k += std::min(stride, std::max<std::size_t>(points.size() - 1 - k, 1))) {
      list += number(across.at(points[k].x)) + "," + number(up.at(points[k].y)) + " ";
    }
    page += "<polyline " + stroke(i) + " points=\"" + list + "\"/>\n";
    // One point makes no line; where there are few of both the points are worth seeing.
    for (std::size_t k = 0; k < points.size() && most_points <= 30 && all.size() <= 4; ++k) {
      page += "<circle r=\"3\" " + fill(i) + " cx=\"" + number(across.at(points[k].x)) + "\" cy=\"" +
              number(up.at(points[k].y)) + "\"/>\n";
    }
  }
  return page + "</svg>\n";
}

std::string map(const std::string& title, const std::string& subtitle, const axis& x, const axis& y, const field& all) {
  double top = 0;
  const auto sample = [](std::size_t i, double at, double height) { return box(at, height - 7, 28, 14, fill(i)); };
  std::string page = svg::head(title, subtitle, all.names, sample, top);

  // Cells end half way to their neighbours, which on a logarithmic axis is the geometric mean.
  const auto edges = [](const std::vector<double>& centres) {
    std::vector<double> result;
    const double first = centres.size() > 1 ? centres[1] / centres[0] : 2;
    const double last = centres.size() > 1 ? centres.back() / centres[centres.size() - 2] : 2;
    result.push_back(centres.front() / std::sqrt(first));
    for (std::size_t i = 1; i < centres.size(); ++i) result.push_back(std::sqrt(centres[i - 1] * centres[i]));
    result.push_back(centres.back() * std::sqrt(last));
    return result;
  };
  const std::vector<double> xs = edges(all.x), ys = edges(all.y);
  const ruler across(x.scale, xs.front(), xs.back(), left, right, false);
  const ruler up(y.scale, ys.front(), ys.back(), top + plot_height, top, false);
  const std::size_t columns = all.x.size();
  for (std::size_t row = 0; row < all.y.size(); ++row) {
    for (std::size_t column = 0; column < columns;) {
      std::size_t end = column;
      const int kind = all.cells[row * columns + column];
      while (end < columns && all.cells[row * columns + end] == kind) ++end;
      const auto i = static_cast<std::size_t>(kind);
      const std::string style = fill(i) + " stroke=\"" + std::string(svg::area_colour(i)) + "\" stroke-width=\"0.6\"";
      page += box(across.at(xs[column]), up.at(ys[row + 1]), across.at(xs[end]) - across.at(xs[column]),
                  up.at(ys[row]) - up.at(ys[row + 1]), style);
      column = end;
    }
  }
  page += axes(x, y, across, up, top, false);
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    const auto from = [&](const run& r) { return across.at(xs[r.first]); };
    const auto to = [&](const run& r) { return across.at(xs[r.first + r.count]); };
    const auto fits = [&](const run& r) { return to(r) - from(r) >= svg::width_of(all.names[i]) + 8; };
    const run r = inner_run(all, static_cast<int>(i), fits);
    if (r.count == 0) continue;
    page += svg::text((from(r) + to(r)) / 2, up.at(all.y[r.row]) + 4.5,
                      "text-anchor=\"middle\" font-weight=\"bold\" fill=\"white\" stroke=\"#222\" stroke-width=\"3\" "
                      "stroke-linejoin=\"round\" paint-order=\"stroke\"",
                      all.names[i]);
  }
  return page + "</svg>\n";
}

}  // namespace chart
