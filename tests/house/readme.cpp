// SPDX-License-Identifier: BSL-1.0

// The README says what is: its commands exist, its CMake lines are those that the consumer is built with, its links
// lead somewhere. (Its C++ is compiled and run by tests of its own.)

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "house/source_tree.hpp"

namespace {

/// The lines of all blocks of a language.
std::vector<std::string> block_lines(const std::string& language) {
  std::vector<std::string> result;
  bool inside = false;
  for (const std::string& line : house::lines(house::read("README.md"))) {
    if (line.starts_with("```")) {
      inside = line == "```" + language;
    } else if (inside && !line.empty()) {
      result.push_back(line);
    }
  }
  return result;
}

/// The line without indentation and without a comment.
std::string bare(std::string line) {
  line.erase(0, line.find_first_not_of(' '));
  line.erase(std::min(line.find(" #"), line.size()));
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

TEST_CASE("the README's CMake lines are those of the consumer") {
  std::vector<std::string> consumer;
  for (const std::string& line : house::lines(house::read("tests/consumer/CMakeLists.txt"))) {
    consumer.push_back(bare(line));
  }
  REQUIRE_FALSE(block_lines("cmake").empty());
  for (const std::string& line : block_lines("cmake")) {
    CAPTURE(line);
    CHECK(std::find(consumer.begin(), consumer.end(), bare(line)) != consumer.end());
  }
}

TEST_CASE("the README's commands exist") {
  REQUIRE_FALSE(block_lines("sh").empty());
  for (const std::string& line : block_lines("sh")) {
    const std::string program = line.substr(0, line.find(' '));
    if (program.find('/') == std::string::npos) continue;  // The system's, such as cmake.
    CAPTURE(program);
    const auto permissions = std::filesystem::status(house::root / program).permissions();
    CHECK((permissions & std::filesystem::perms::owner_exec) != std::filesystem::perms::none);
  }
}

TEST_CASE("the README's links lead to files") {
  const std::string text = house::read("README.md");
  const std::regex link("\\[[^\\]]+\\]\\(([^)#: ]+)\\)");
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match) {
    const std::string target = (*match)[1];
    CAPTURE(target);
    CHECK(std::filesystem::exists(house::root / target));
  }
}
