// SPDX-License-Identifier: BSL-1.0

// What every source file has in common, and what lies at the top of the repository.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
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

/// What lies at the top of the repository: what git tracks, or everything where there is no git (an archive of the
/// sources).
std::set<std::string> top_level() {
  std::set<std::string> result;
  const std::string command = "git -C '" + house::root.string() + "' ls-tree --name-only HEAD 2>/dev/null";
  if (std::FILE* const pipe = popen(command.c_str(), "r")) {
    std::string names;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) names += static_cast<char>(c);
    pclose(pipe);
    for (const std::string& name : house::lines(names)) result.insert(name);
  }
  if (!result.empty()) return result;
  for (const auto& entry : std::filesystem::directory_iterator(house::root)) {
    const std::string name = entry.path().filename().string();
    if (name != ".git" && !name.starts_with("build")) result.insert(name);
  }
  return result;
}

}  // namespace

TEST_CASE("the top level of the repository holds only what was agreed") {
  const std::set<std::string> agreed{".ci",     ".clang-format", ".clang-tidy", ".gitignore", "CMakeLists.txt",
                                     "LICENSE", "README.md",     "benchmarks",  "examples",   "include",
                                     "tests"};
  CHECK(top_level() == agreed);
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
