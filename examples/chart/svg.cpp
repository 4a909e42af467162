// SPDX-License-Identifier: BSL-1.0
#include "svg.hpp"

#include <cstddef>
#include <cstdio>

namespace chart::svg {
namespace {

// Okabe and Ito's, without the yellow that white paper swallows.
constexpr std::string_view colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222"};
constexpr std::size_t hues = sizeof colours / sizeof *colours;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string text(double x, double y, std::string_view style, std::string_view content) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + std::string(style) + ">" + escaped(content) +
         "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" " + std::string(style) + "/>\n";
}

std::string box(double x, double y, double w, double h, std::string_view style) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(w) + "\" height=\"" + number(h) +
         "\" " + std::string(style) + "/>\n";
}

double width_of(std::string_view content) { return 7.6 * static_cast<double>(content.size()); }

std::string_view colour(std::size_t i) { return colours[i % hues]; }

std::string_view area_colour(std::size_t i) {
  constexpr std::string_view more[] = {"#999999", "#8c510a", "#b2df8a", "#6a3d9a", "#f0e442"};
  return i < hues ? colours[i] : more[(i - hues) % (sizeof more / sizeof *more)];
}

std::string_view dashes(std::size_t i) {
  constexpr std::string_view kinds[] = {"none", "8 4", "2 3"};
  return kinds[i / hues % 3];
}

}  // namespace chart::svg
