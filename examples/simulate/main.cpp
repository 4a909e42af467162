// SPDX-License-Identifier: BSL-1.0
// Predicts how long collectives take on a network that is not here. `simulate --help` lists the flags.

#include "../chart/chart.hpp"
#include "charts.hpp"
#include "options.hpp"
#include "survey.hpp"

#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace planning {
namespace {

void print_table(const question& asked) {
  std::printf("%s of %zu bytes among %d ranks\n%s\n\n", std::string(tutti::name_of(asked.collective)).c_str(),
              asked.bytes, asked.ranks, text_of(asked.network).c_str());
  std::printf("%-24s %12s %9s %14s %17s %9s\n", "algorithm", "predicted", "rounds", "messages", "busiest sends B",
              "wall s");
  for (const answer& a : survey(asked)) {
    if (!a) {
      std::printf("%-24s %s\n", std::string(a.algorithm).c_str(), a.left_out.c_str());
      continue;
    }
    // The micro sign takes two bytes and one column.
    std::string time = chart::text_of(a.result.makespan, chart::unit::seconds);
    const int width = time.find("\xc2\xb5") == std::string::npos ? 12 : 13;
    std::printf("%-24s %*s %9d %14lld %17lld %9.3f\n", std::string(a.algorithm).c_str(), width, time.c_str(),
                a.result.rounds, a.result.messages, a.result.busiest, a.wall);
    std::fflush(stdout);
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
    print_table(wanted.asked);
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
