// SPDX-License-Identifier: BSL-1.0
#include "diagram.hpp"

#include "../chart/svg.hpp"

#include <cstddef>
#include <map>
#include <set>
#include <sstream>

namespace drawing {

namespace {

namespace svg = chart::svg;

// Of colours that everybody can tell apart.
constexpr const char* stored_colour = "#0072b2";
constexpr const char* folded_colour = "#d55e00";

constexpr int left = 64;
constexpr int top = 84;
constexpr int padding = 12;      // between an arrow's ends and its column's, or the labels that stand there
constexpr int letter_width = 7;  // of a label
constexpr int small_width = 6;   // of a letter of the line below the title

/// More messages than this in one round of one rank cover each other: then one rank's are shown for all.
constexpr std::size_t few = 4;

struct label {
  bool at_head;
  std::string text;
};

class picture {
 public:
  explicit picture(const recording& schedule)
      : schedule_(schedule),
        row_(schedule.ranks <= 8    ? 44
             : schedule.ranks <= 16 ? 34
                                    : 27) {
    choose_labels();
    for (const auto& [number, l] : labels_) {
      const auto& a = schedule_.arrows[number];
      int& wanted = l.at_head ? after_[a.arrived] : before_[a.sent];
      wanted = std::max(wanted, static_cast<int>(l.text.size()) * letter_width + 6);
    }
    columns_.push_back(left);
    // The more rows an arrow crosses, the wider its column, or it would be too steep to follow.
    const int slope = 80 + std::min(schedule_.ranks, 32) * 4;
    for (int k = 0; k < schedule_.rounds; ++k) columns_.push_back(columns_.back() + before_[k] + slope + after_[k]);
  }

  std::string svg() {
    const int texts = left + static_cast<int>(subtitle().size()) * small_width;
    const int width = std::max({columns_.back(), texts, left + 360}) + 30;
    const int bottom = y(schedule_.ranks - 1);
    const int height = bottom + 62;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
         << "\" viewBox=\"0 0 " << width << ' ' << height << "\" font-family=\"sans-serif\">\n"
         << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<defs>\n";
    marker("stored", stored_colour);
    marker("folded", folded_colour);
    out_ << "</defs>\n";
    text(left, 28, 17, "#222", "start", title());
    text(left, 48, 12, "#555", "start", subtitle());
    for (int k = 0; k < schedule_.rounds; ++k) {
      const int middle = (columns_[at(k)] + columns_[at(k + 1)]) / 2;
      text(middle, top - 16, 12, "#555", "middle", "round " + std::to_string(k));
      line(columns_[at(k + 1)], top - 12, columns_[at(k + 1)], bottom + 12, "#ddd");
    }
    line(left, top - 12, left, bottom + 12, "#ddd");
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      line(left, y(rank), columns_.back() + 8, y(rank), "#aaa");
      text(left - 10, y(rank) + 4, 12, "#222", "end", "rank " + std::to_string(rank));
    }
    for (std::size_t i = 0; i < schedule_.arrows.size(); ++i)
      if (faint_.contains(i)) draw(schedule_.arrows[i], true);
    for (std::size_t i = 0; i < schedule_.arrows.size(); ++i)
      if (!faint_.contains(i)) draw(schedule_.arrows[i], false);
    for (const auto& [number, l] : labels_) draw(schedule_.arrows[number], l);
    legend(bottom + 40);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  static std::size_t at(int k) { return static_cast<std::size_t>(k); }
  int y(int rank) const { return top + 10 + rank * row_; }
  static int room(const std::map<int, int>& rooms, int k) {
    const auto found = rooms.find(k);
    return found == rooms.end() ? 0 : found->second;
  }
  int tail(const arrow& a) const { return columns_[at(a.sent)] + room(before_, a.sent) + padding; }
  int head(const arrow& a) const { return columns_[at(a.arrived + 1)] - room(after_, a.arrived) - padding; }

  /// One label for all messages that a rank sends in a round if they are of the same blocks; or one for all that it
  /// gets, if those are; or one for each where they are few. Where they are many, of one rank only.
  void choose_labels() {
    std::map<std::pair<int, int>, std::vector<std::size_t>> sent, arrived;
    for (std::size_t i = 0; i < schedule_.arrows.size(); ++i) {
      const arrow& a = schedule_.arrows[i];
      sent[{a.from, a.sent}].push_back(i);
      arrived[{a.to, a.arrived}].push_back(i);
    }
    const auto same = [&](const std::vector<std::size_t>& arrows) {
      for (const std::size_t i : arrows)
        if (schedule_.arrows[i].blocks != schedule_.arrows[arrows[0]].blocks) return false;
      return true;
    };
    // Where many ranks have many messages, the arrows of all but one are faint.
    std::map<int, int> crowded;
    for (const auto& [key, arrows] : sent) crowded[key.second] += arrows.size() > few ? 1 : 0;
    const int shown = schedule_.root >= 0 ? schedule_.root : 0;
    for (std::size_t i = 0; i < schedule_.arrows.size(); ++i) {
      const arrow& a = schedule_.arrows[i];
      if (crowded[a.sent] > 1 && a.from != shown) faint_.insert(i);
    }
    some_faint_ = !faint_.empty();
    for (std::size_t i = 0; i < schedule_.arrows.size(); ++i) {
      const arrow& a = schedule_.arrows[i];
      if (a.blocks.empty() || faint_.contains(i)) continue;
      const auto& siblings = sent[{a.from, a.sent}];
      const auto& fellows = arrived[{a.to, a.arrived}];
      if (same(siblings)) {
        if (siblings[0] == i) labels_[i] = {false, a.blocks};
      } else if (same(fellows) || fellows.size() == 1) {
        if (first_visible(fellows) == i) labels_[i] = {true, a.blocks};
      } else if (siblings.size() <= few || a.from == shown) {
        labels_[i] = {true, a.blocks};
      }
    }
  }
  std::size_t first_visible(const std::vector<std::size_t>& arrows) const {
    for (const std::size_t i : arrows)
      if (!faint_.contains(i)) return i;
    return arrows[0];
  }

  std::string title() const {
    return schedule_.collective + " by " + schedule_.algorithm + ", " + std::to_string(schedule_.ranks) + " ranks" +
           (schedule_.root >= 0 ? ", root " + std::to_string(schedule_.root) : "");
  }
  std::string subtitle() const {
    std::string text = std::to_string(schedule_.rounds) + (schedule_.rounds == 1 ? " round, " : " rounds, ") +
                       std::to_string(schedule_.arrows.size()) + " messages, ";
    if (schedule_.blocks == 1) {
      for (const arrow& a : schedule_.arrows)
        if (!a.blocks.empty()) return text + "each of a whole vector: the rank's first, or v1, its second";
      return text + "each of the whole vector";
    }
    text += "a vector of " + std::to_string(schedule_.blocks);
    const bool slots = schedule_.collective == "alltoall";
    return text +
           (schedule_.segments > 0 ? " segments"
            : slots                ? " slots"
                                   : " blocks") +
           "; labels are their numbers, modulo " + std::to_string(schedule_.blocks);
  }

  void marker(const char* id, const char* colour) {
    out_ << "<marker id=\"" << id << "\" markerWidth=\"9\" markerHeight=\"8\" refX=\"8\" refY=\"4\" orient=\"auto\" "
         << "markerUnits=\"userSpaceOnUse\"><path d=\"M0,0.5 L9,4 L0,7.5 z\" fill=\"" << colour << "\"/></marker>\n";
  }
  void line(int x1, int y1, int x2, int y2, const char* colour) {
    out_ << svg::line(x1, y1, x2, y2, std::string("stroke=\"") + colour + '"');
  }
  void text(int x, int y, int size, const char* colour, const char* anchor, const std::string& what) {
    out_ << svg::text(
        x, y, "font-size=\"" + std::to_string(size) + "\" fill=\"" + colour + "\" text-anchor=\"" + anchor + '"', what);
  }
  void draw(const arrow& a, bool faint) {
    const char* const colour = a.folded ? folded_colour : stored_colour;
    out_ << "<line x1=\"" << tail(a) << "\" y1=\"" << y(a.from) << "\" x2=\"" << head(a) << "\" y2=\"" << y(a.to)
         << "\" stroke=\"" << colour << "\" stroke-width=\"" << (faint ? 0.7 : 1.4) << "\"";
    if (faint) {
      out_ << " opacity=\"0.25\"/>\n";
      return;
    }
    out_ << " marker-end=\"url(#" << (a.folded ? "folded" : "stored") << ")\"/>\n<circle cx=\"" << tail(a) << "\" cy=\""
         << y(a.from) << "\" r=\"2.2\" fill=\"" << colour << "\"/>\n";
  }
  /// On the rank's line, beside the end that it belongs to, where no arrows are.
  void draw(const arrow& a, const label& l) {
    const char* const colour = a.folded ? folded_colour : stored_colour;
    const int width = static_cast<int>(l.text.size()) * letter_width + 2;
    out_ << "<rect x=\"" << (l.at_head ? head(a) + 3 : tail(a) - 4 - width) << "\" y=\""
         << y(l.at_head ? a.to : a.from) - 7 << "\" width=\"" << width << "\" height=\"14\" fill=\"white\"/>\n";
    if (l.at_head) {
      text(head(a) + 5, y(a.to) + 4, 12, colour, "start", l.text);
    } else {
      text(tail(a) - 6, y(a.from) + 4, 12, colour, "end", l.text);
    }
  }
  void legend(int y) {
    const auto entry = [&](int x, const char* colour, const char* id, const std::string& what) {
      out_ << "<line x1=\"" << x << "\" y1=\"" << y << "\" x2=\"" << x + 30 << "\" y2=\"" << y << "\" stroke=\""
           << colour << "\" stroke-width=\"1.4\" marker-end=\"url(#" << id << ")\"/>\n";
      text(x + 38, y + 4, 12, "#222", "start", what);
    };
    int x = left;
    const auto any = [&](bool folded) {
      for (const arrow& a : schedule_.arrows)
        if (a.folded == folded) return true;
      return false;
    };
    if (any(true)) {
      entry(x, folded_colour, "folded", "folded in");
      x += 130;
    }
    if (any(false)) {
      entry(x, stored_colour, "stored", "stored");
      x += 110;
    }
    if (some_faint_) {
      text(x, y + 4, 12, "#555", "start",
           "the others do as rank " + std::to_string(schedule_.root >= 0 ? schedule_.root : 0));
    }
  }

  const recording& schedule_;
  int row_;
  bool some_faint_ = false;
  std::map<std::size_t, label> labels_;
  std::set<std::size_t> faint_;
  // The room for labels at the beginning and at the end of each round's column.
  std::map<int, int> before_, after_;
  std::vector<int> columns_;
  std::ostringstream out_;
};

}  // namespace

std::string diagram(const recording& schedule) { return picture(schedule).svg(); }

}  // namespace drawing
