// SPDX-License-Identifier: BSL-1.0

// The conformance suite knows every algorithm that there is.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "collective/conformance.hpp"

namespace {

/// Without the number of an algorithm that is a template of one.
template <class... A>
std::set<std::string> names(conformance::list<A...>) {
  const auto family = [](std::string_view name) { return std::string(name.substr(0, name.find('<'))); };
  return {family(tutti::name_of<A>())...};
}

/// What stands in quotes in every definition of a `name` in the headers of a room: of a template perhaps, which is
/// listed with arguments.
std::set<std::string> names_in(const std::filesystem::path& room) {
  std::set<std::string> result;
  for (const auto& header : std::filesystem::directory_iterator(room)) {
    std::ifstream file(header.path());
    std::ostringstream content;
    content << file.rdbuf();
    const std::string source = content.str();
    constexpr std::string_view before = "std::string_view name =";
    for (std::size_t at = source.find(before); at != std::string::npos; at = source.find(before, at + 1)) {
      std::istringstream definition(source.substr(at, source.find(';', at) - at));
      std::string between, name;
      while (std::getline(definition, between, '"') && std::getline(definition, name, '"')) result.insert(name);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("every algorithm of the library is in the list") {
  const std::set<std::string> listed = names(conformance::algorithms{});
  const std::set<std::string> there = names_in(std::filesystem::path(TUTTI_SOURCE_DIR) / "include/tutti/schedule");
  CHECK(there.size() > 10);
  for (const std::string& name : there) {
    if (name == "rows_of" || name == "near_square") continue;  // shapes of grids, not algorithms
    if (name == "two_level") continue;  // needs a transport that knows hosts: collective/two_level.cpp
    CAPTURE(name);
    const auto instance = listed.lower_bound(name + '<');
    CHECK((listed.contains(name) || (instance != listed.end() && instance->starts_with(name + '<'))));
  }
}
