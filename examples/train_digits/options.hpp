// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace digits {

/// What the command line asks for.
struct options {
  int ranks = 4;
  bool ranks_given = false;
  std::string transport = "threads";
  std::string algorithm = "auto";
  std::string sync = "all_reduce";
  std::string rule = "momentum";
  int epochs = 30;
  std::size_t batch = 32;
  double rate = 0.05;
  std::uint64_t seed = 1;
  std::string data;
  std::string images;
  std::string labels;
  std::string test_images;
  std::string test_labels;
  std::string chart = "loss.svg";
  bool help = false;
};

/// Reads the command line. Throws `input_error` naming the flag that is wrong.
options parse(int argc, const char* const* argv);

/// The text of `--help`.
std::string help();

}  // namespace digits
