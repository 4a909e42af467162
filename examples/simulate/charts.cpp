// SPDX-License-Identifier: BSL-1.0
#include "charts.hpp"

#include "../chart/chart.hpp"
#include "options.hpp"
#include "survey.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace planning {
namespace {

const chart::axis seconds{"predicted time", chart::scale::decades, chart::unit::seconds};
const chart::axis bytes{"bytes of each rank's vector", chart::scale::octaves, chart::unit::bytes};
const chart::axis ranks{"ranks", chart::scale::octaves, chart::unit::none};

/// What the curves are of, for the subtitle.
std::string on(const tutti::network& net) {
  using chart::unit;
  return "latency " + chart::text_of(net.latency, unit::seconds) + ", overhead " +
         chart::text_of(net.overhead, unit::seconds) + ", gap " + chart::text_of(net.gap, unit::seconds) + ", a byte " +
         chart::text_of(net.byte, unit::seconds) + ", to fold it " + chart::text_of(net.fold, unit::seconds) + ", " +
         std::to_string(net.ports) + (net.ports == 1 ? " port" : " ports");
}

/// Where the line of that name is; makes it if there is none.
chart::line& line_of(std::vector<chart::line>& lines, std::string_view name) {
  for (chart::line& l : lines) {
    if (l.name == name) return l;
  }
  return lines.emplace_back(chart::line{std::string(name), {}});
}

bool coincide(const chart::line& a, const chart::line& b) {
  return std::equal(
      a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
      [](const chart::point& p, const chart::point& q) { return p.x == q.x && std::abs(p.y - q.y) <= 0.005 * p.y; });
}

/// Lines that cannot be told apart become one, named after all of them.
std::vector<chart::line> merged(const std::vector<chart::line>& lines) {
  std::vector<chart::line> result;
  for (const chart::line& l : lines) {
    const auto same = std::find_if(result.begin(), result.end(), [&](const chart::line& r) { return coincide(r, l); });
    if (same == result.end()) {
      result.push_back(l);
    } else {
      same->name += ", " + l.name;
    }
  }
  return result;
}

}  // namespace

std::string time_by_bytes(const tutti::network& net) {
  constexpr int p = 48;
  std::vector<chart::line> lines;
  for (int power = 3; power <= 28; ++power) {
    question asked{tutti::collective::allreduce, p, std::size_t{1} << power, net};
    for (const answer& a : survey(asked)) {
      if (a) line_of(lines, a.algorithm).points.push_back({std::exp2(power), a.result.makespan});
    }
  }
  return chart::lines("Allreduce among " + std::to_string(p) + " ranks, by message size", "Simulated: " + on(net),
                      bytes, seconds, merged(lines));
}

std::string latency_by_ranks(const tutti::network& net) {
  std::vector<chart::line> lines;
  for (int power = 1; power <= 20; ++power) {
    question asked{tutti::collective::allreduce, 1 << power, 8, net};
    for (const answer& a : survey(asked, {}, {"ring", "two_tree", "recursive_doubling", "circulant"})) {
      if (a) line_of(lines, a.algorithm).points.push_back({std::exp2(power), a.result.makespan});
    }
  }
  return chart::lines("Allreduce of 8 bytes, by number of ranks", "Simulated: " + on(net), ranks, seconds, lines);
}

std::string fastest_by_both(const tutti::network& net) {
  constexpr double tie = 1.001;  // of several that are as good as the best, but for how their blocks are rounded
  chart::field all;
  for (int power = 1; power <= 12; ++power) {
    all.x.push_back(std::exp2(power));
    if (power < 12) all.x.push_back(1.5 * std::exp2(power));
  }
  for (int power = 3; power <= 30; ++power) all.y.push_back(std::exp2(power));
  for (const double n : all.y) {
    for (const double p : all.x) {
      question asked{tutti::collective::allreduce, static_cast<int>(p), static_cast<std::size_t>(n), net};
      // What was fastest among fewer ranks shows how slow the fastest here is at most: most others cannot be that fast.
      limits few{.messages = 1e6, .in_flight = 1e6};
      if (!all.cells.empty()) {
        for (const answer& a : survey(asked, few, {all.names[static_cast<std::size_t>(all.cells.back())]})) {
          if (a) few.makespan = a.result.makespan * tie * tie;
        }
      }
      const std::vector<answer> answers = survey(asked, few);
      double least = std::numeric_limits<double>::infinity();
      for (const answer& a : answers) {
        if (a) least = std::min(least, a.result.makespan);
      }
      const auto good = std::find_if(answers.begin(), answers.end(),
                                     [&](const answer& a) { return a && a.result.makespan <= least * tie; });
      const std::string_view fastest = good->algorithm;
      const auto name = std::find(all.names.begin(), all.names.end(), fastest);
      all.cells.push_back(static_cast<int>(name - all.names.begin()));
      if (name == all.names.end()) all.names.emplace_back(fastest);
    }
  }
  return chart::map("The fastest allreduce, by number of ranks and message size",
                    "Simulated: " + on(net) + "; of equals the first in README", ranks, bytes, all);
}

}  // namespace planning
