// SPDX-License-Identifier: BSL-1.0
// Predicts how long collectives take on a network that is not here. `simulate --help` lists the flags.

#include "../chart/chart.hpp"
#include "charts.hpp"
#include "options.hpp"
#include "survey.hpp"

#include <tutti/schedule/algorithms.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace planning {
namespace {

void print_line(int width, const answer& a) {
  if (!a) {
    std::printf("%-*s %s\n", width, std::string(a.algorithm).c_str(), a.left_out.c_str());
  } else {
    // The micro sign takes two bytes and one column.
    const std::string time = chart::text_of(a.result.makespan, chart::unit::seconds);
    const int columns = time.find("\xc2\xb5") == std::string::npos ? 12 : 13;
    std::printf("%-*s %*s %9d %14lld %17lld %9.3f\n", width, std::string(a.algorithm).c_str(), columns, time.c_str(),
                a.result.rounds, a.result.messages, a.result.busiest, a.wall);
  }
  std::fflush(stdout);
}

void print_head(int width, const question& asked) {
  std::printf("%s of %zu bytes among %d rank%s\n%s\n\n", std::string(tutti::name_of(asked.collective)).c_str(),
              asked.bytes, asked.ranks, asked.ranks == 1 ? "" : "s", text_of(asked.network).c_str());
  std::printf("%-*s %12s %9s %14s %17s %9s\n", width, "algorithm", "predicted", "rounds", "messages", "busiest sends B",
              "wall s");
}

/// Each line as soon as it is known.
void print_table(const question& asked, std::string_view only) {
  std::vector<std::string_view> names;
  tutti::for_each_algorithm([&]<class A>() {
    if (only.empty() || tutti::name_of<A>() == only) names.push_back(tutti::name_of<A>());
  });
  std::size_t width = 0;
  for (const std::string_view name : names) width = std::max(width, name.size());
  std::size_t lines = 0;
  for (const std::string_view name : names) {
    for (const answer& a : survey(asked, {}, {name})) {
      if (lines++ == 0) print_head(static_cast<int>(width), asked);
      print_line(static_cast<int>(width), a);
    }
  }
  if (lines == 0) {
    throw input_error("no " + std::string(tutti::name_of(asked.collective)) + " among " + std::to_string(asked.ranks) +
                      " ranks is defined for " + std::string(only));
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("\npeak memory %ld MiB\n", used.ru_maxrss / 1024);
}

void write(const std::filesystem::path& file, const std::string& picture) {
  std::ofstream out(file);
  out << picture;
  out.close();
  if (!out) throw input_error(file.string() + ": cannot be written");
  std::printf("%s\n", file.string().c_str());
  std::fflush(stdout);
}

int run(const options& wanted) {
  if (wanted.table) {
    print_table(wanted.asked, wanted.algorithm);
    return 0;
  }
  const std::filesystem::path folder = wanted.folder;
  if (!std::filesystem::is_directory(folder)) throw input_error("-o is '" + wanted.folder + "', not a folder");
  write(folder / "allreduce_by_bytes.svg", time_by_bytes(wanted.asked.network));
  write(folder / "allreduce_by_ranks.svg", latency_by_ranks(wanted.asked.network));
  write(folder / "allreduce_fastest.svg", fastest_by_both(wanted.asked.network));
  return 0;
}

}  // namespace
}  // namespace planning

int main(int argc, char** argv) {
  try {
    const planning::options wanted = planning::parse(argc, argv);
    if (wanted.help) {
      std::fputs(planning::help().c_str(), stdout);
      return 0;
    }
    return planning::run(wanted);
  } catch (const planning::input_error& wrong) {
    std::fprintf(stderr, "simulate: %s\n", wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "simulate: %s\n", failed.what());
    return 1;
  }
}
