// SPDX-License-Identifier: BSL-1.0
#include "options.hpp"

#include <tutti/schedule/algorithms.hpp>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>

namespace planning {
namespace {

constexpr int most_ranks = 1 << 24;
constexpr std::size_t most_bytes = std::size_t{1} << 50;

constexpr tutti::collective collectives[] = {
    tutti::collective::allreduce, tutti::collective::reduce_scatter, tutti::collective::allgather,
    tutti::collective::broadcast, tutti::collective::reduce,         tutti::collective::scatter,
    tutti::collective::gather,    tutti::collective::alltoall,       tutti::collective::barrier,
    tutti::collective::scan,      tutti::collective::exscan};

[[noreturn]] void fail(std::string_view flag, std::string_view value, const std::string& wanted) {
  throw input_error(std::string(flag) + " is '" + std::string(value) + "', not " + wanted);
}

template <class Number>
std::optional<Number> read(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

template <class Number>
void set_whole(Number& to, std::string_view flag, std::string_view value, Number least, Number most) {
  const std::optional<Number> number = read<Number>(value);
  if (!number || *number < least || *number > most) {
    fail(flag, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  to = *number;
}

void set_collective(tutti::collective& to, std::string_view value) {
  std::string names;
  for (const tutti::collective c : collectives) {
    if (tutti::name_of(c) == value) {
      to = c;
      return;
    }
    names += (names.empty() ? "" : ", ") + std::string(tutti::name_of(c));
  }
  fail("--collective", value, "one of " + names);
}

std::string_view algorithm_called(std::string_view value) {
  std::string_view found;
  std::string names;
  tutti::for_each_algorithm([&]<class A>() {
    constexpr std::string_view name = tutti::name_of<A>();
    if (name == value) found = name;
    names += (names.empty() ? "" : ", ") + std::string(name);
  });
  if (found.empty()) fail("--algorithm", value, "one of " + names);
  return found;
}

struct parameter {
  std::string_view name;
  double tutti::network::*time;
};
constexpr parameter parameters[] = {{"latency", &tutti::network::latency},
                                    {"overhead", &tutti::network::overhead},
                                    {"gap", &tutti::network::gap},
                                    {"byte", &tutti::network::byte},
                                    {"fold", &tutti::network::fold}};

void set_parameter(tutti::network& to, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) fail("--network", assignment, "NAME=VALUE,...");
  const std::string_view name = assignment.substr(0, equals);
  const std::string_view value = assignment.substr(equals + 1);
  const std::string flag = "--network " + std::string(name);
  if (name == "ports") {
    set_whole(to.ports, flag, value, 1, 4096);
    return;
  }
  for (const parameter& p : parameters) {
    if (p.name != name) continue;
    const std::optional<double> time = read<double>(value);
    if (!time || !std::isfinite(*time) || *time < 0 || *time > 1) fail(flag, value, "seconds from 0 to 1");
    to.*p.time = *time;
    return;
  }
  fail("--network", name, "one of latency, overhead, gap, byte, fold, ports");
}

void set_network(tutti::network& to, std::string_view value) {
  for (;;) {
    const std::size_t comma = value.find(',');
    set_parameter(to, value.substr(0, comma));
    if (comma == std::string_view::npos) return;
    value.remove_prefix(comma + 1);
  }
}

}  // namespace

options parse(int argc, const char* const* argv) {
  options read;
  bool ranks = false, bytes = false, of_table = false, folder = false;
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
    if (name != "--ranks" && name != "--bytes" && name != "--collective" && name != "--algorithm" &&
        name != "--network" && name != "-o") {
      throw input_error("no flag is called '" + std::string(name) + "'; --help lists them");
    }
    if (!value) {
      if (i + 1 == argc) throw input_error(std::string(name) + " needs a value");
      value = argv[++i];
    }
    if (name == "--ranks") {
      set_whole(read.asked.ranks, name, *value, 1, most_ranks);
      ranks = true;
    } else if (name == "--bytes") {
      set_whole(read.asked.bytes, name, *value, std::size_t{0}, most_bytes);
      bytes = true;
    } else if (name == "--collective") {
      set_collective(read.asked.collective, *value);
      of_table = true;
    } else if (name == "--algorithm") {
      read.algorithm = algorithm_called(*value);
      of_table = true;
    } else if (name == "--network") {
      set_network(read.asked.network, *value);
    } else {
      if (value->empty()) throw input_error("-o is empty");
      read.folder = *value;
      folder = true;
    }
  }
  if (ranks != bytes) throw input_error(ranks ? "--ranks needs --bytes beside it" : "--bytes needs --ranks beside it");
  read.table = ranks;
  if (of_table && !read.table) {
    throw input_error("--collective and --algorithm need --ranks and --bytes: the charts show allreduce");
  }
  if (folder && read.table) throw input_error("-o is where the charts go: not with --ranks and --bytes");
  return read;
}

std::string text_of(const tutti::network& net) {
  std::string text;
  for (const parameter& p : parameters) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", net.*p.time);
    text += std::string(p.name) + "=" + number + ",";
  }
  return text + "ports=" + std::to_string(net.ports);
}

std::string help() {
  std::string names;
  for (const tutti::collective c : collectives) names.append(" ").append(tutti::name_of(c));
  return "Predicts how long collectives take on a network that is not here, by simulating their schedules.\n\n"
         "usage: simulate --ranks N --bytes B [flags]   a table, one line for each algorithm\n"
         "       simulate [-o DIR] [flags]              three charts of allreduce, as SVG\n\n"
         "  --ranks N            ranks, 1 to 16777216\n"
         "  --bytes B            bytes of each rank's vector\n"
         "  --collective NAME    one of" +
         names +
         "\n                       (allreduce); rooted ones from or to rank 0\n"
         "  --algorithm NAME     only this one (all)\n"
         "  --network NAME=VALUE,...\n"
         "                       the network in the LogGP model, in seconds: latency, overhead (of the processor for "
         "a\n"
         "                       message, at each end), gap (of a port for a message), byte (of a port for a byte),\n"
         "                       fold (of the processor to fold a byte); and its ports, a number\n"
         "                       (" +
         text_of(tutti::network{}) +
         ")\n"
         "  -o DIR               where the charts go (.)\n"
         "  --help               this text\n";
}

}  // namespace planning
