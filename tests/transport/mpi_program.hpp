// SPDX-License-Identifier: BSL-1.0
#pragma once

// For tests of MPI that are programs of their own, without a framework of tests: what is wrong they print and count.

#include <cstdio>
#include <exception>
#include <string>

namespace test {

inline int failures = 0;

/// Whether it throws `Error` with that text.
template <class Error, class F>
void throws(const char* what, const char* part, F&& f) {
  std::string text = "nothing";
  try {
    f();
  } catch (const Error& e) {
    text = e.what();
    if (text.find(part) != std::string::npos) return;
  } catch (const std::exception& e) {
    text = e.what();
  }
  std::printf("%s: threw '%s', expected '%s'\n", what, text.c_str(), part);
  ++failures;
}
inline void check(bool right, const char* what) {
  if (!right) std::printf("wrong: %s\n", what);
  failures += right ? 0 : 1;
}

}  // namespace test
