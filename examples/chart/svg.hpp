// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace chart::svg {

// The page in pixels, and where the frame of the plot stands on it. The top depends on the legend.
constexpr double width = 800, margin = 20, left = 92, right = 776, plot_height = 340, below = 64;

std::string number(double value);
std::string text(double x, double y, std::string_view style, std::string_view content);
std::string line(double x1, double y1, double x2, double y2, std::string_view style);
std::string box(double x, double y, double w, double h, std::string_view style);

/// Roughly how wide the text is at 13 pixels.
double width_of(std::string_view content);

/// The colour and the dashes of the i-th of several.
std::string_view colour(std::size_t i);
/// The same for areas, which have no dashes: more colours.
std::string_view area_colour(std::size_t i);
std::string_view dashes(std::size_t i);

/// The page's beginning: title, subtitle and a legend in columns, each entry with the sample that `sample(i, x, y)`
/// draws, 28 pixels wide. Sets `top` to where the frame begins.
template <class Sample>
std::string head(const std::string& title, const std::string& subtitle, const std::vector<std::string>& legend,
                 const Sample& sample, double& top) {
  double widest = 0;
  for (const std::string& name : legend) widest = width_of(name) > widest ? width_of(name) : widest;
  const double room = right - margin;
  const double wanted = 36 + widest + 24;
  const std::size_t columns = wanted >= room ? 1 : static_cast<std::size_t>(room / wanted);
  const std::size_t rows = (legend.size() + columns - 1) / columns;
  top = 76 + 20 * static_cast<double>(rows);
  const double height = top + plot_height + below;
  std::string page = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
                     number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                     "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n" +
                     box(0, 0, width, height, "fill=\"white\"");
  page += text(margin, 28, "font-size=\"17\" font-weight=\"bold\"", title);
  page += text(margin, 50, "font-size=\"12\" fill=\"#555\"", subtitle);
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const double x = margin + wanted * static_cast<double>(i % columns);
    const double y = 72 + 20 * static_cast<double>(i / columns);
    page += sample(i, x, y) + text(x + 36, y + 4.5, "", legend[i]);
  }
  return page;
}

}  // namespace chart::svg
