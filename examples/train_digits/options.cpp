// SPDX-License-Identifier: BSL-1.0
#include "options.hpp"

#include "images.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace digits {
namespace {

[[noreturn]] void fail(std::string_view flag, std::string_view value, const std::string& wanted) {
  throw input_error(std::string(flag) + " is '" + std::string(value) + "', not " + wanted);
}

template <class Number>
void set_whole(Number& to, std::string_view flag, std::string_view value, Number least, Number most) {
  Number read{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
  if (error != std::errc{} || end != value.data() + value.size() || read < least || read > most) {
    fail(flag, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  to = read;
}

void set_positive(double& to, std::string_view flag, std::string_view value) {
  double read = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
  if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(read) || read <= 0) {
    fail(flag, value, "a number above 0");
  }
  to = read;
}

void set_text(std::string& to, std::string_view flag, std::string_view value) {
  if (value.empty()) throw input_error(std::string(flag) + " is empty");
  to = value;
}

struct flag {
  std::string_view name;
  std::string_view value;
  std::string_view meaning;
  void (*set)(options&, std::string_view flag, std::string_view value);
};

// One table for the parser and for --help.
constexpr flag flags[] = {
    {"--ranks", "N", "ranks that train together",
     [](options& o, std::string_view f, std::string_view v) {
       set_whole(o.ranks, f, v, 1, 256);
       o.ranks_given = true;
     }},
    {"--transport", "NAME", "threads, processes; or, where mpirun or the like starts ranks, launched, tcp, mpi or auto",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.transport, f, v); }},
    {"--algorithm", "NAME", "algorithm of the collectives, 'auto' chooses by cost",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.algorithm, f, v); }},
    {"--sync", "NAME", "all_reduce or parameter_server",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.sync, f, v); }},
    {"--rule", "NAME", "plain, momentum or nesterov",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.rule, f, v); }},
    {"--epochs", "N", "passes over the training images",
     [](options& o, std::string_view f, std::string_view v) { set_whole(o.epochs, f, v, 1, 1'000'000); }},
    {"--batch", "N", "images a step, over all ranks",
     [](options& o, std::string_view f, std::string_view v) {
       set_whole(o.batch, f, v, std::size_t{1}, std::size_t{1'000'000'000});
     }},
    {"--rate", "X", "learning rate",
     [](options& o, std::string_view f, std::string_view v) { set_positive(o.rate, f, v); }},
    {"--seed", "N", "seed of weights, held-out choice and order",
     [](options& o, std::string_view f, std::string_view v) {
       set_whole(o.seed, f, v, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
     }},
    {"--data", "FILE", "CSV of 64 pixels (0 to 16) and a digit, plain or gzip",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.data, f, v); }},
    {"--images", "FILE", "IDX images (MNIST's format) instead, plain or gzip",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.images, f, v); }},
    {"--labels", "FILE", "IDX labels of --images",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.labels, f, v); }},
    {"--test-images", "FILE", "IDX images to examine on; else a fifth is held out",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.test_images, f, v); }},
    {"--test-labels", "FILE", "IDX labels of --test-images",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.test_labels, f, v); }},
    {"--chart", "FILE", "where the loss curve is drawn, as SVG",
     [](options& o, std::string_view f, std::string_view v) { set_text(o.chart, f, v); }},
};

const flag& find(std::string_view name) {
  for (const flag& f : flags) {
    if (f.name == name) return f;
  }
  throw input_error("no flag is called '" + std::string(name) + "'; --help lists them");
}

/// What a flag is when it is not given; nothing where there is no default.
std::string default_of(std::string_view name) {
  const options o;
  if (name == "--ranks") return std::to_string(o.ranks);
  if (name == "--transport") return o.transport;
  if (name == "--algorithm") return o.algorithm;
  if (name == "--sync") return o.sync;
  if (name == "--rule") return o.rule;
  if (name == "--epochs") return std::to_string(o.epochs);
  if (name == "--batch") return std::to_string(o.batch);
  if (name == "--rate") return std::to_string(o.rate).substr(0, 4);
  if (name == "--seed") return std::to_string(o.seed);
  if (name == "--data") return "the digits shipped beside this example";
  if (name == "--chart") return o.chart;
  return "";
}

void require_both(std::string_view one, const std::string& one_value, std::string_view other,
                  const std::string& other_value) {
  if (one_value.empty() != other_value.empty()) {
    const auto [given, missing] = one_value.empty() ? std::pair(other, one) : std::pair(one, other);
    throw input_error(std::string(given) + " needs " + std::string(missing) + " beside it");
  }
}

}  // namespace

options parse(int argc, const char* const* argv) {
  options read;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (name == "--help" || name == "-h") {
      read.help = true;
      return read;
    }
    // Both --flag value and --flag=value.
    std::optional<std::string_view> value;
    if (const std::size_t equals = name.find('='); name.starts_with("--") && equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const flag& found = find(name);
    if (!value) {
      if (i + 1 == argc) throw input_error(std::string(name) + " needs a value (" + std::string(found.value) + ")");
      value = argv[++i];
    }
    found.set(read, name, *value);
  }

  require_both("--images", read.images, "--labels", read.labels);
  require_both("--test-images", read.test_images, "--test-labels", read.test_labels);
  if (!read.test_images.empty() && read.images.empty()) throw input_error("--test-images needs --images beside it");
  if (!read.data.empty() && !read.images.empty()) throw input_error("--data and --images exclude each other");
  return read;
}

std::string help() {
  std::string text =
      "Trains a perceptron of two layers on images of digits, data-parallel: every rank learns from its share of each\n"
      "batch and the gradients are reduced over the ranks. The last line says which part of the held-out images it "
      "got\n"
      "right.\n\nusage: train_digits [flags]\n\n";
  for (const flag& f : flags) {
    std::string left = "  " + std::string(f.name) + " " + std::string(f.value);
    left.resize(22, ' ');
    text += left + std::string(f.meaning);
    if (const std::string value = default_of(f.name); !value.empty()) text += " (" + value + ")";
    text += '\n';
  }
  text += "  --help              this text\n";
  return text;
}

}  // namespace digits
