// SPDX-License-Identifier: BSL-1.0
#include "options.hpp"

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace {

template <class Number>
Number number(std::string_view flag, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most))
    throw std::invalid_argument(std::string(flag) + " is '" + std::string(text) + "', not a number from " +
                                std::to_string(static_cast<int>(least)) + " to " +
                                std::to_string(static_cast<int>(most)));
  return value;
}

}  // namespace

options parse(int argc, char** argv) {
  constexpr int most = 4096;
  options asked;
  bool by_hosts = false;
  bool by_number = false;
  int i = 1;
  for (; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag.substr(0, 1) != "-") break;
    if (flag == "--") {
      ++i;
      break;
    }
    if (flag == "--help") {
      asked.help = true;
      return asked;
    }
    if (flag != "-n" && flag != "--hosts" && flag != "--per-host" && flag != "--grace")
      throw std::invalid_argument("no flag is called '" + std::string(flag) + "'");
    if (i + 1 == argc) throw std::invalid_argument(std::string(flag) + " needs a value");
    const std::string_view value = argv[++i];
    if (flag == "--grace") {
      asked.grace = std::chrono::milliseconds(std::llround(1000 * number(flag, value, 0.0, 86400.0)));
    } else {
      (flag == "--hosts" ? asked.hosts : asked.per_host) = number(flag, value, 1, most);
      (flag == "-n" ? by_number : by_hosts) = true;
    }
  }
  if (by_hosts && by_number) throw std::invalid_argument("-n and --hosts, --per-host exclude each other");
  if (asked.ranks() > most)
    throw std::invalid_argument("these are " + std::to_string(asked.ranks()) + " ranks, at most " +
                                std::to_string(most) + " can be started");
  asked.command.assign(argv + i, argv + argc);
  if (asked.command.empty()) throw std::invalid_argument("no command: launch -n 4 ./my_program");
  return asked;
}
