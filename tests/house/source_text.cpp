// SPDX-License-Identifier: BSL-1.0

// What every source file has in common, and what lies at the top of the repository.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "house/source_tree.hpp"

namespace {

std::vector<std::string> sources() {
  std::vector<std::string> result;
  for (const char* folder : {"include", "tests", "examples", "benchmarks"}) {
    for (const std::string& path : house::files(folder, {".hpp", ".cpp"})) result.push_back(path);
  }
  return result;
}

/// Characters as the reader counts them: UTF-8 continuation bytes are not counted.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

TEST_CASE("the top level of the repository holds only what was agreed") {
  const std::set<std::string> agreed{".ci",        ".clang-format",  ".clang-tidy", ".git",
                                     ".gitignore", "CMakeLists.txt", "LICENSE",     "README.md",
                                     "benchmarks", "examples",       "include",     "tests"};
  std::set<std::string> missing = agreed;
  missing.erase(".git");  // An archive of the sources has none.
  for (const auto& entry : std::filesystem::directory_iterator(house::root)) {
    const std::string name = entry.path().filename().string();
    missing.erase(name);
    if (name.starts_with("build") || name == "out") continue;  // Ignored by git.
    CAPTURE(name);
    CHECK(agreed.contains(name));
  }
  for (const std::string& name : missing) FAIL_CHECK("missing: ", name);
}

TEST_CASE("sources begin with the licence, keep to 120 columns and leave nothing to do") {
  const std::string to_do = std::string("TO") + "DO";
  for (const std::string& path : sources()) {
    const std::vector<std::string> lines = house::lines(house::read(path));
    CAPTURE(path);
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.front() == "// SPDX-License-Identifier: BSL-1.0");
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(i + 1);
      if (columns(lines[i]) > 120) FAIL_CHECK("longer than 120 columns");
      if (lines[i].find(to_do) != std::string::npos) FAIL_CHECK("something is left to do");
      if (lines[i].find('\t') != std::string::npos || lines[i].ends_with(' ')) FAIL_CHECK("tab or space at the end");
    }
  }
}

TEST_CASE("headers are guarded and no longer than a reader can hold") {
  for (const std::string& header : house::headers()) {
    const std::vector<std::string> lines = house::lines(house::read("include/" + header));
    CAPTURE(header);
    CHECK(std::count(lines.begin(), lines.end(), "#pragma once") == 1);
    CHECK(lines.size() <= 440);
  }
}
