// SPDX-License-Identifier: BSL-1.0

// The README's table of algorithms is what the library has.

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <tutti/schedule/algorithms.hpp>
#include <utility>
#include <vector>

#include "house/source_tree.hpp"

namespace {

struct row {
  std::string algorithm;
  std::string collectives;
  std::string ranks;
  std::string ordered;

  friend bool operator==(const row&, const row&) = default;
};

doctest::String toString(const row& r) {
  return (r.algorithm + " | " + r.collectives + " | " + r.ranks + " | " + r.ordered).c_str();
}

std::string listed(const std::vector<tutti::collective>& these) {
  std::string result;
  for (const tutti::collective c : these) result += (result.empty() ? "" : ", ") + std::string(tutti::name_of(c));
  return result;
}

/// What `A` does, and which of these keep rank order of those in which order tells.
struct abilities {
  std::vector<tutti::collective> implemented;
  std::vector<tutti::collective> folding;
  std::vector<tutti::collective> ordered;

  template <class A, tutti::collective C>
  void add() {
    if constexpr (tutti::implements<A, C>) {
      using enum tutti::collective;
      implemented.push_back(C);
      if constexpr (C == reduce || C == reduce_scatter || C == allreduce || C == scan || C == exscan) {
        folding.push_back(C);
        if (tutti::schedule_for<C, A>::rank_ordered) ordered.push_back(C);
      }
    }
  }
  bool does(tutti::collective c) const { return std::count(implemented.begin(), implemented.end(), c) != 0; }

  std::string collectives() const {
    using enum tutti::collective;
    if (implemented.size() == tutti::collective_count) return "all";
    if (implemented.size() == tutti::collective_count - 2 && !does(scan) && !does(exscan))
      return "all but scan and exscan";
    return listed(implemented);
  }
  std::string order() const {
    return folding.empty() ? "-" : ordered.empty() ? "no" : ordered == folding ? "yes" : listed(ordered);
  }
};

template <class A>
row row_of() {
  abilities found;
  const auto add_all = [&]<int... C>(std::integer_sequence<int, C...>) {
    (found.template add<A, static_cast<tutti::collective>(C)>(), ...);
  };
  add_all(std::make_integer_sequence<int, tutti::collective_count>{});
  const char* const ranks = tutti::supports<A>(3) ? "any" : tutti::supports<A>(6) ? "even" : "powers of two";
  return {'`' + std::string(tutti::name_of<A>()) + '`', found.collectives(), ranks, found.order()};
}

std::vector<row> rows_in_readme() {
  std::vector<row> result;
  for (const std::string& line : house::lines(house::read("README.md"))) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (std::size_t begin = 2; begin < line.size();) {
      const std::size_t end = line.find(" |", begin);
      cells.push_back(line.substr(begin, end - begin));
      begin = end == std::string::npos ? end : end + 3;
    }
    if (cells.size() >= 5) result.push_back({cells[0], cells[1], cells[2], cells[4]});
  }
  return result;
}

}  // namespace

TEST_CASE("the README's table of algorithms is true and complete") {
  using namespace tutti;
  std::vector<row> rows;
  for_each_algorithm([&]<class A>() { rows.push_back(row_of<A>()); });
  const std::vector<row> written = rows_in_readme();
  REQUIRE(written.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(written[i] == rows[i]);
}

TEST_CASE("the README names every algorithm that a header defines") {
  const std::string readme = house::read("README.md");
  const std::regex name("string_view name =[^;\"]*\"([a-z_]+)");
  for (const std::string& header : house::files("include/tutti/schedule", {".hpp"})) {
    const std::string text = house::read(header);
    for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match) {
      const std::string algorithm = (*match)[1];
      if (algorithm == "star") continue;                                   // What flat and single_master are made of.
      if (algorithm == "rows_of" || algorithm == "near_square") continue;  // Shapes, not algorithms.
      CAPTURE(algorithm);
      CHECK(readme.find("| `" + algorithm) != std::string::npos);
    }
  }
}
