// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

inline constexpr int classes = 10;

/// A file or a flag that the program cannot work with. The message is one line that names it.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Grey images of one size, with their labels, 0 to 9.
struct images {
  std::size_t width = 0;
  std::size_t height = 0;
  int brightest = 255;  // pixels are 0 to this
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t count() const { return labels.size(); }
  std::size_t pixels_each() const { return width * height; }
  std::span<const std::uint8_t> operator[](std::size_t i) const {
    return std::span(pixels).subspan(i * pixels_each(), pixels_each());
  }
};

/// Reads rows of 64 pixels (0 to 16) and a digit, comma separated, plain or gzip. Throws `input_error`.
images read_csv(const std::string& path);

/// Reads a pair of IDX files (the format of MNIST), plain or gzip. Throws `input_error`.
images read_idx(const std::string& images_path, const std::string& labels_path);

/// What to learn from and what to be examined on.
struct task {
  images training;
  images held_out;
};

/// Shuffles by the seed and holds out the last fifth. Throws `input_error` for fewer than five images.
task hold_out_fifth(const images& all, std::uint64_t seed);

/// A permutation of 0 to count - 1, the same for one seed on every platform.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed);

}  // namespace digits
