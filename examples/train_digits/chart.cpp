// SPDX-License-Identifier: BSL-1.0
#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace digits {
namespace {

// The frame of the plot inside the picture, in pixels.
constexpr double width = 800, height = 480, margin = 20, left = 82, right = 764, top = 92, bottom = 416;
constexpr std::string_view training_colour = "#0b62a4", held_out_colour = "#d1570b";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
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

std::string text_at(double x, double y, std::string_view style, std::string_view text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + std::string(style) + ">" + escaped(text) +
         "</text>\n";
}

std::string line_from(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" " + std::string(style) + "/>\n";
}

/// A logarithmic axis over whole ticks: 1, 2, 5 times powers of ten, or the powers alone where the range is wide.
struct loss_axis {
  std::vector<double> ticks;

  loss_axis(double least, double most) {
    const int from = static_cast<int>(std::floor(std::log10(least)));
    const int to = static_cast<int>(std::ceil(std::log10(most))) + 1;
    const bool wide = std::log10(most / least) > 2.5;
    for (int power = from - 1; power <= to; ++power) {
      for (const int step : {1, 2, 5}) {
        if (!wide || step == 1) ticks.push_back(step * std::pow(10.0, power));
      }
    }
    // Keep one tick at or below the least and one at or above the most.
    while (ticks.size() > 2 && ticks[1] <= least) ticks.erase(ticks.begin());
    while (ticks.size() > 2 && ticks[ticks.size() - 2] >= most) ticks.pop_back();
  }

  double y(double loss) const {
    const double share = std::log(loss / ticks.front()) / std::log(ticks.back() / ticks.front());
    return bottom - share * (bottom - top);
  }
};

/// Distance between ticks of the epochs: 1, 2 or 5 times a power of ten, ten ticks at most.
int epoch_step(int epochs) {
  for (int power = 1;; power *= 10) {
    for (const int step : {1, 2, 5}) {
      if (epochs / (step * power) <= 10) return step * power;
    }
  }
}

}  // namespace

std::string loss_chart(const std::vector<epoch_result>& epochs, const std::string& title, const std::string& subtitle) {
  // A loss may round to 0, whose logarithm cannot be drawn.
  const auto of_training = [](const epoch_result& e) { return std::max(e.training_loss, 1e-9); };
  const auto of_held_out = [](const epoch_result& e) { return std::max(e.held_out_loss, 1e-9); };
  double least = of_training(epochs.front());
  double most = least;
  for (const epoch_result& e : epochs) {
    least = std::min({least, of_training(e), of_held_out(e)});
    most = std::max({most, of_training(e), of_held_out(e)});
  }
  const loss_axis axis(least, most);
  const int last = std::max(static_cast<int>(epochs.size()), 2);
  const auto x = [&](int epoch) { return left + (epoch - 1) * (right - left) / (last - 1); };

  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
                    number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                    "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += text_at(margin, 28, "font-size=\"17\" font-weight=\"bold\"", title);
  svg += text_at(margin, 50, "font-size=\"12\" fill=\"#555\"", subtitle);

  // The legend stands above the frame, where no curve can run through it.
  const auto legend = [&](double at, std::string_view colour, std::string_view name) {
    svg += line_from(at, 72, at + 28, 72, "stroke-width=\"2.5\" stroke=\"" + std::string(colour) + "\"");
    svg += text_at(at + 36, 76.5, "", name);
  };
  legend(margin, training_colour, "training images, mean over the epoch");
  legend(margin + 310, held_out_colour, "held-out images, after the epoch");

  for (const double tick : axis.ticks) {
    svg += line_from(left, axis.y(tick), right, axis.y(tick), "stroke=\"#ddd\"");
    svg += text_at(left - 8, axis.y(tick) + 4.5, "text-anchor=\"end\"", number(tick));
  }
  const int step = epoch_step(last);
  for (int tick = step > 2 ? 0 : step; tick <= last; tick += step) {
    const int epoch = std::max(tick, 1);
    svg += line_from(x(epoch), bottom, x(epoch), bottom + 5, "stroke=\"#222\"");
    svg += text_at(x(epoch), bottom + 21, "text-anchor=\"middle\"", std::to_string(epoch));
  }
  svg += line_from(left, bottom, right, bottom, "stroke=\"#222\"");
  svg += line_from(left, top, left, bottom, "stroke=\"#222\"");
  svg += text_at((left + right) / 2, height - 18, "text-anchor=\"middle\"", "epoch");
  const std::string middle = number((top + bottom) / 2);
  svg += text_at(margin, (top + bottom) / 2,
                 "text-anchor=\"middle\" transform=\"rotate(-90 " + number(margin) + " " + middle + ")\"",
                 "loss (cross-entropy, nats; log scale)");

  const auto curve = [&](std::string_view colour, const auto& loss_of) {
    std::string points;
    // More points than pixels show nothing more.
    const std::size_t stride = 1 + epochs.size() / 2000;
    for (std::size_t i = 0; i < epochs.size(); i += std::min(stride, std::max(epochs.size() - 1 - i, std::size_t{1}))) {
      points += number(x(static_cast<int>(i) + 1)) + "," + number(axis.y(loss_of(epochs[i]))) + " ";
    }
    const std::string paint(colour);
    svg += "<polyline fill=\"none\" stroke-width=\"2.5\" stroke-linejoin=\"round\" stroke=\"" + paint + "\" points=\"" +
           points + "\"/>\n";
    // One epoch makes no line; where there are few the points are worth seeing.
    for (std::size_t i = 0; i < epochs.size() && epochs.size() <= 30; ++i) {
      svg += "<circle r=\"3\" fill=\"" + paint + "\" cx=\"" + number(x(static_cast<int>(i) + 1)) + "\" cy=\"" +
             number(axis.y(loss_of(epochs[i]))) + "\"/>\n";
    }
  };
  curve(training_colour, of_training);
  curve(held_out_colour, of_held_out);
  return svg + "</svg>\n";
}

}  // namespace digits
