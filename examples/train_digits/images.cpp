// SPDX-License-Identifier: BSL-1.0
#include "images.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <type_traits>
#include <utility>

namespace digits {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw input_error(path + ": " + what); }

/// A file read from its beginning; gzip is undone on the way.
class file {
 public:
  explicit file(std::string path) : path_(std::move(path)) {
    errno = 0;
    handle_.reset(gzopen(path_.c_str(), "rb"));
    if (!handle_) fail(path_, errno != 0 ? std::strerror(errno) : "cannot be opened");
  }

  const std::string& path() const { return path_; }

  /// Reads up to `most` bytes more and appends them; fewer only at the end of the file.
  template <class Container>
  std::size_t append(Container& to, std::size_t most) {
    // A size that a damaged header claims is never allocated before the bytes are there.
    constexpr std::size_t chunk = std::size_t{1} << 20;
    std::size_t done = 0;
    while (done < most) {
      const std::size_t want = std::min(chunk, most - done);
      const std::size_t before = to.size();
      to.resize(before + want);
      const std::size_t got = read(to.data() + before, want);
      to.resize(before + got);
      done += got;
      if (got < want) break;
    }
    return done;
  }

 private:
  struct closer {
    void operator()(gzFile_s* handle) const { gzclose_r(handle); }
  };

  std::size_t read(void* to, std::size_t size) {
    errno = 0;
    const int got = gzread(handle_.get(), to, static_cast<unsigned>(size));
    const int system_error = errno;
    int error = Z_OK;
    gzerror(handle_.get(), &error);
    if (error == Z_BUF_ERROR) fail(path_, "the gzip data is cut off");
    if (got < 0) fail(path_, error == Z_ERRNO ? std::strerror(system_error) : "the gzip data is damaged");
    return static_cast<std::size_t>(got);
  }

  std::string path_;
  std::unique_ptr<gzFile_s, closer> handle_;
};

/// The integer that `text` is, in [0, most].
std::uint8_t whole_number(std::string_view text, int most, const std::string& path, std::size_t line) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most) {
    fail(path, "line " + std::to_string(line) + ": '" + std::string(text.substr(0, 20)) +
                   "' is not a whole number from 0 to " + std::to_string(most));
  }
  return static_cast<std::uint8_t>(value);
}

struct idx_header {
  std::array<std::size_t, 3> extent{};
  std::size_t bytes = 1;  // of the data that follow
};

/// Reads the header of an IDX file of bytes with that many dimensions.
idx_header read_idx_header(file& from, int dimensions, const char* meaning) {
  std::vector<std::uint8_t> bytes;
  const std::size_t size = 4 + 4 * static_cast<std::size_t>(dimensions);
  if (from.append(bytes, size) < size) fail(from.path(), "the IDX header is cut off");
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != dimensions) {
    fail(from.path(), std::string("is no IDX file of ") + meaning);
  }
  idx_header header;
  for (int d = 0; d < dimensions; ++d) {
    const auto* at = bytes.data() + 4 * (1 + static_cast<std::size_t>(d));
    const auto extent = std::size_t{at[0]} << 24 | std::size_t{at[1]} << 16 | std::size_t{at[2]} << 8 | at[3];
    if (extent == 0) fail(from.path(), "the IDX header gives a size of 0");
    if (header.bytes > (std::size_t{1} << 40) / extent) fail(from.path(), "the IDX header gives an impossible size");
    header.extent[static_cast<std::size_t>(d)] = extent;
    header.bytes *= extent;
  }
  return header;
}

/// Reads what follows the header: exactly as much as it says.
std::vector<std::uint8_t> read_idx_body(file& from, const idx_header& header) {
  std::vector<std::uint8_t> body;
  const std::size_t got = from.append(body, header.bytes);
  if (got < header.bytes) {
    fail(from.path(),
         "holds " + std::to_string(got) + " bytes of data, its header promises " + std::to_string(header.bytes));
  }
  std::vector<std::uint8_t> beyond;
  if (from.append(beyond, 1) != 0) {
    fail(from.path(), "holds more than the " + std::to_string(header.bytes) + " bytes of data its header promises");
  }
  return body;
}

}  // namespace

images read_csv(const std::string& path) {
  constexpr std::size_t side = 8;
  constexpr int brightest = 16;
  std::string text;
  file from(path);
  while (from.append(text, std::size_t{1} << 20) == std::size_t{1} << 20) {
  }

  images read{side, side, brightest, {}, {}};
  std::string_view rest = text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    std::string_view row = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (row.ends_with('\r')) row.remove_suffix(1);

    const auto columns = static_cast<std::size_t>(std::count(row.begin(), row.end(), ',')) + 1;
    if (columns != side * side + 1) {
      fail(path,
           "line " + std::to_string(line) + ": has " + std::to_string(columns) + " columns, not 64 pixels and a digit");
    }
    for (std::size_t column = 0; column < side * side; ++column) {
      const std::size_t comma = row.find(',');
      read.pixels.push_back(whole_number(row.substr(0, comma), brightest, path, line));
      row = row.substr(comma + 1);
    }
    read.labels.push_back(whole_number(row, classes - 1, path, line));
  }
  if (read.count() == 0) fail(path, "holds no images");
  return read;
}

images read_idx(const std::string& images_path, const std::string& labels_path) {
  file images_file(images_path);
  const idx_header shape = read_idx_header(images_file, 3, "images (unsigned bytes in 3 dimensions)");
  file labels_file(labels_path);
  const idx_header labels = read_idx_header(labels_file, 1, "labels (unsigned bytes in 1 dimension)");
  if (shape.extent[0] != labels.extent[0]) {
    throw input_error(images_path + " holds " + std::to_string(shape.extent[0]) + " images, but " + labels_path + " " +
                      std::to_string(labels.extent[0]) + " labels");
  }
  images read{shape.extent[2], shape.extent[1], 255, {}, read_idx_body(labels_file, labels)};
  const auto wrong = std::find_if(read.labels.begin(), read.labels.end(), [](int label) { return label >= classes; });
  if (wrong != read.labels.end()) {
    fail(labels_path, "label " + std::to_string(wrong - read.labels.begin()) + " is " + std::to_string(*wrong) +
                          ", not a digit from 0 to 9");
  }
  read.pixels = read_idx_body(images_file, shape);
  return read;
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // std::shuffle may differ between standard libraries; this does not. The bias of the remainder is below 2^-40.
  std::mt19937_64 random(seed);
  for (std::size_t left = count; left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

task hold_out_fifth(const images& all, std::uint64_t seed) {
  const std::size_t held_out = all.count() / 5;
  if (held_out == 0) {
    throw input_error("only " + std::to_string(all.count()) + " images: at least 5 are needed to hold out a fifth");
  }
  const auto order = shuffled(all.count(), seed);
  const auto pick = [&](std::size_t first, std::size_t last) {
    images picked{all.width, all.height, all.brightest, {}, {}};
    for (std::size_t i = first; i < last; ++i) {
      const auto image = all[order[i]];
      picked.pixels.insert(picked.pixels.end(), image.begin(), image.end());
      picked.labels.push_back(all.labels[order[i]]);
    }
    return picked;
  };
  return {pick(0, all.count() - held_out), pick(all.count() - held_out, all.count())};
}

}  // namespace digits
