// SPDX-License-Identifier: BSL-1.0

// The README's table of algorithms is what the library has.

#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <tutti/schedule/algorithms.hpp>
#include <type_traits>
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

constexpr int collectives = static_cast<int>(tutti::collective::barrier) + 1;  // that a route does

/// Adds to the row what `A` has to say of one collective.
template <class A, tutti::collective C>
void add(std::string& names, int& implemented, bool& reduces, bool& ordered) {
  if constexpr (tutti::implements<A, C>) {
    using enum tutti::collective;
    implemented += C != scan && C != exscan;
    names += (names.empty() ? "" : ", ") + std::string(tutti::name_of(C));
    if constexpr (C == reduce || C == reduce_scatter || C == allreduce) {
      reduces = true;
      ordered = ordered && tutti::schedule_for<C, A>::rank_ordered;
    }
  }
}

template <class A>
row row_of() {
  using enum tutti::collective;
  std::string names;
  int implemented = 0;
  bool reduces = false;
  bool ordered = true;
  const auto add_all = [&]<tutti::collective... C>() { (add<A, C>(names, implemented, reduces, ordered), ...); };
  add_all.template operator()<broadcast, scatter, gather, reduce, reduce_scatter, allgather, allreduce, alltoall,
                              barrier, scan, exscan>();
  if (implemented == collectives) names = "all";
  const char* const ranks = tutti::supports<A>(3) ? "any" : "powers of two";
  return {'`' + std::string(tutti::name_of<A>()) + '`', names, ranks, !reduces ? "-" : ordered ? "yes" : "no"};
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
    // After the order of all there may be a word on some, in brackets.
    if (cells.size() >= 5) result.push_back({cells[0], cells[1], cells[2], cells[4].substr(0, cells[4].find(" ("))});
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
      if (algorithm == "star") continue;  // What flat and single_master are made of.
      CAPTURE(algorithm);
      CHECK(readme.find("| `" + algorithm) != std::string::npos);
    }
  }
}
