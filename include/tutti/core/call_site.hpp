// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// Where in the user's source a collective was called. As a default argument, `call_site::current()` is the caller's
/// place; `std::source_location` is the same but is missing from clang 14 with libstdc++.
struct call_site {
  const char* file = "";
  unsigned line = 0;

  static constexpr call_site current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace tutti
