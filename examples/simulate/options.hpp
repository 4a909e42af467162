// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "survey.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

namespace planning {

/// The command line is wrong; the text is one line that says how.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the command line asks for.
struct options {
  question asked;              // with `table`
  bool table = false;          // else charts
  std::string_view algorithm;  // the only one asked for; empty if all are
  std::string folder = ".";
  bool help = false;
};

/// Reads the command line. Throws `input_error` naming the flag and the value that are wrong.
options parse(int argc, const char* const* argv);

/// The text of `--help`.
std::string help();

/// The network as `--network` takes it.
std::string text_of(const tutti::network& net);

}  // namespace planning
