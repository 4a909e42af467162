// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string_view>

namespace tutti {

/// The name of a type as the compiler spells it, for error messages and fingerprints.
template <class T>
consteval std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  const auto begin = text.find("T = ");
  text.remove_prefix(begin == std::string_view::npos ? 0 : begin + 4);
  // g++ goes on with "; std::string_view = ..." and closes with ']'; clang only closes.
  const auto end = text.find("; std::string_view");
  return text.substr(0, end == std::string_view::npos ? text.size() - 1 : end);
}

}  // namespace tutti
