// SPDX-License-Identifier: BSL-1.0
#pragma once

// Environments that a test makes up.

#include <map>
#include <string>

namespace test {

using variables = std::map<std::string, std::string>;

/// What looks a variable up there, as the environment is: null if it is not set.
inline auto lookup_in(const variables& set) {
  return [&set](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

inline variables with(variables set, const variables& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

}  // namespace test
