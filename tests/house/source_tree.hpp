// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the tests of the house itself share: the files of the repository, as paths from its root.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace house {

inline const std::filesystem::path root = TUTTI_SOURCE_DIR;

inline std::string read(const std::string& path) {
  std::ifstream file(root / path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

/// All files below `folder` whose name ends in one of `endings`, sorted.
inline std::vector<std::string> files(const std::string& folder, const std::vector<std::string_view>& endings) {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string path = entry.path().lexically_relative(root).generic_string();
    const auto ends_so = [&](std::string_view ending) { return path.ends_with(ending); };
    if (entry.is_regular_file() && std::any_of(endings.begin(), endings.end(), ends_so)) result.push_back(path);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// The public headers as users include them: `tutti/core/place.hpp`.
inline std::vector<std::string> headers() {
  std::vector<std::string> result = files("include", {".hpp"});
  for (std::string& path : result) path.erase(0, std::string_view("include/").size());
  return result;
}

}  // namespace house
