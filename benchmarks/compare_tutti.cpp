// SPDX-License-Identifier: BSL-1.0

// Our side of the comparison: one collective by one algorithm over one transport, every size, as lines on stdout.
// With TUTTI_COMPARE_COLLECTIVE defined as allreduce, say, it knows that collective only and compiles the sooner.

#include <tutti/run_processes.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "calls.hpp"
#include "measure.hpp"

namespace {

// Calls visit.operator()<C, A...>() for what the command line names.
template <class Visit>
void chosen(const measure::arguments& asked, Visit visit) {
  std::string there_are;
  bool found = false;
  measure::each_collective([&]<tutti::collective C>() {
    if (tutti::name_of(C) != measure::name_of(asked.what)) return;
    measure::each_algorithm<C>([&]<tutti::collective, class... A>(std::string_view name) {
      there_are += (there_are.empty() ? "" : ", ") + std::string(name);
      if (name != asked.algorithm) return;
      found = true;
      visit.template operator()<C, A...>();
    });
  });
  if (!found) {
    throw std::invalid_argument("no algorithm '" + asked.algorithm + "' for " +
                                std::string(measure::name_of(asked.what)) + "; there are " + there_are);
  }
}

// Starts the ranks of a transport. A new transport is one more line.
template <class Rank>
void run(const measure::arguments& asked, Rank rank) {
  if (asked.transport == "threads") return tutti::run(asked.ranks, rank);
  if (asked.transport == "processes") {
    tutti::detail::peer_memory::switched_off = std::getenv("TUTTI_COMPARE_NO_READS") != nullptr;
    return tutti::run_processes(asked.ranks, rank);
  }
  throw std::invalid_argument("unknown transport '" + asked.transport + "'; there are threads, processes");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const measure::arguments asked = measure::parse(argc, argv);
    if (asked.ranks < 1) throw std::invalid_argument("--ranks must be at least 1");
    chosen(
        asked, [&]<tutti::collective C, class... A>() {
          if (asked.dry_run) return;
          run(asked, [&](auto& comm) {
            measure::pin(comm.rank(), asked.cpus);
            measure::group group(comm);
            measure::report_cpus(group);
            measure::all_sizes(group, asked,
                               [&](measure::buffers& data, auto use) { measure::with_call<C, A...>(comm, data, use); });
          });
        });
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
