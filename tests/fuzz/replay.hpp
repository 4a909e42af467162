// SPDX-License-Identifier: BSL-1.0
#pragma once

// What is common to the fuzz targets. A target is a function of some bytes that ends the program where something is not
// as it must be. As a test it gets every file of tests/fuzz/corpus/NAME, every beginning of it, and every change of one
// of its bytes. As a fuzzer:
//
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -DTUTTI_FUZZ -Iinclude tests/fuzz/NAME.cpp -o NAME
//   ./NAME -max_len=4096 NEW_FOLDER tests/fuzz/corpus/NAME

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

/// Ends the program, as a fuzzer wants it, unless it holds.
inline void require(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "line %d: this must hold\n", line);
  std::abort();
}

/// Takes an input apart; beyond its end everything is zero.
class input {
 public:
  input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
  std::size_t left() const { return left_; }
  const std::uint8_t* rest() const { return at_; }
  unsigned byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  unsigned two_bytes() {
    const unsigned low = byte();
    return low | byte() << 8;
  }
  /// The next bytes, as many as there are of `count`.
  const std::uint8_t* take(std::size_t count, std::size_t& taken) {
    taken = std::min(count, left_);
    const std::uint8_t* const from = at_;
    at_ += taken;
    left_ -= taken;
    return from;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

}  // namespace fuzz

#if !defined(TUTTI_FUZZ)

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace fuzz {

// In memory of its own, so that a sanitizer sees every step beyond its end.
inline void try_one(const std::vector<std::uint8_t>& bytes) {
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

inline void replay(const char* name) {
  const std::filesystem::path folder = std::filesystem::path(TUTTI_SOURCE_DIR) / "tests/fuzz/corpus" / name;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 5);
  try_one({});
  for (const auto& file : files) {
    INFO(file.string());
    std::ifstream stream(file, std::ios::binary);
    std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    REQUIRE(stream);
    try_one(bytes);
    // Of a long one not every place, so that a test does not take long.
    const std::size_t step = std::max<std::size_t>(1, bytes.size() / 400);
    for (std::size_t size = 0; size < bytes.size(); size += step)
      try_one({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const std::uint8_t before = bytes[at];
      for (const int other : {0, 0xff, before ^ 1, before ^ 0x80, before + 1}) {
        bytes[at] = static_cast<std::uint8_t>(other);
        try_one(bytes);
      }
      bytes[at] = before;
    }
  }
}

}  // namespace fuzz

#endif
