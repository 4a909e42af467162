// SPDX-License-Identifier: BSL-1.0
// Trains a perceptron of two layers on images of digits, data-parallel. `train_digits --help` lists the flags.

#include "choice.hpp"
#include "images.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "report.hpp"

#include <tutti/communicator/environment.hpp>

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <utility>

namespace digits {
namespace {

task load(const options& wanted) {
  if (wanted.images.empty())
    return hold_out_fifth(read_csv(wanted.data.empty() ? TRAIN_DIGITS_DATA : wanted.data), wanted.seed);
  images training = read_idx(wanted.images, wanted.labels);
  if (wanted.test_images.empty()) return hold_out_fifth(training, wanted.seed);
  images held_out = read_idx(wanted.test_images, wanted.test_labels);
  if (training.width != held_out.width || training.height != held_out.height) {
    const auto shape = [](const images& i) { return std::to_string(i.width) + "x" + std::to_string(i.height); };
    throw input_error(wanted.test_images + " holds images of " + shape(held_out) + " pixels, but " + wanted.images +
                      " of " + shape(training));
  }
  return {std::move(training), std::move(held_out)};
}

/// Which rank this process is to be: that which its launcher says, who then also says how many there are. Else 0: it
/// is where the others are started, or alone. Throws `input_error` if there should be a launcher and is none.
int find_rank(options& wanted) {
  if (!is_launched(wanted)) return 0;
#if !defined(TRAIN_DIGITS_TCP)
  if (wanted.transport == "tcp" || wanted.transport == "auto")
    throw input_error("--transport " + wanted.transport + ": this program was built without Asio");
#endif
#if !defined(TRAIN_DIGITS_MPI)
  if (wanted.transport == "mpi") throw input_error("--transport mpi: this program was built without MPI");
#endif
  if (wanted.ranks_given) throw input_error("--ranks and --transport " + wanted.transport + " exclude each other");
#if defined(TRAIN_DIGITS_MPI)
  if (wanted.transport == "mpi") return rank_of_mpi(wanted.ranks);
#endif
  if (wanted.transport == "auto" && !tutti::is_launched()) {
    wanted.ranks = 1;
    return 0;
  }
  try {
    const tutti::launched me = tutti::from_environment();
    wanted.ranks = me.size;
    return me.rank;
  } catch (const tutti::usage_error& wrong) {
    throw input_error("--transport " + wanted.transport + ": " + wrong.what());
  }
}

void run(options wanted) {
  check_names(wanted);
  const int rank = find_rank(wanted);
  const task work = load(wanted);
  std::ofstream chart;
  if (rank == 0) {
    // Better to know now than after the training.
    chart.open(wanted.chart);
    if (!chart) throw input_error(wanted.chart + ": cannot be written");
    report::begin(work, wanted);
  }
#if defined(TRAIN_DIGITS_TCP)
  if (wanted.transport == "tcp") return train_on_tcp(work, wanted, chart);
  if (wanted.transport == "auto") return train_on_any(work, wanted, chart);
#endif
#if defined(TRAIN_DIGITS_MPI)
  if (wanted.transport == "mpi") return train_on_mpi(work, wanted, chart);
#endif
  (wanted.transport == "threads" ? train_on_threads : train_on_processes)(work, wanted, chart);
}

/// One line on standard error.
void complain(const char* what) {
  // A process that was killed has left the line unfinished that it was redrawing.
  std::fprintf(stderr, "%strain_digits: %s\n", isatty(fileno(stderr)) != 0 ? "\r\033[K" : "", what);
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    const digits::options wanted = digits::parse(argc, argv);
    if (wanted.help) {
      std::fputs(digits::help().c_str(), stdout);
      return 0;
    }
    digits::run(wanted);
    return 0;
  } catch (const digits::input_error& wrong) {
    digits::complain(wrong.what());
    return 2;
  } catch (const std::exception& failed) {
    digits::complain(failed.what());
    return 1;
  }
}
