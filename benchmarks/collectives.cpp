// SPDX-License-Identifier: BSL-1.0

// Every collective by every algorithm among ranks that are threads, by size: names are
// collective/algorithm/ranks/bytes, to be chosen with --benchmark_filter. The time is that of one call, until the last
// rank has finished; rank r is pinned to the r-th CPU that this process may use.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "calls.hpp"
#include "measure.hpp"

namespace {

template <tutti::collective C, class... Algorithm>
void time_calls(benchmark::State& state, int ranks, std::size_t bytes) {
  // Google Benchmark would choose iterations by what one rank sees; here they are the same on every rank by
  // construction.
  const long calls = std::clamp(4'000'000L / static_cast<long>(bytes + 4000), 3L, 1000L);
  const auto cpus = measure::allowed_cpus();
  try {
    tutti::run(ranks, [&](auto& comm) {
      measure::pin(comm.rank(), cpus);
      measure::group group(comm);
      measure::buffers data(static_cast<measure::collective>(C), bytes, comm.rank(), comm.size());
      measure::with_call<C, Algorithm...>(comm, data, [&](auto call) {
        measure::check_once(group, data, call);
        measure::sample(group, call, calls);
        if (comm.rank() == 0) {
          for ([[maybe_unused]] auto each : state) {
            state.SetIterationTime(measure::sample(group, call, calls) / static_cast<double>(calls));
          }
        } else {
          for (benchmark::IterationCount i = 0; i < state.max_iterations; ++i) measure::sample(group, call, calls);
        }
        data.check();
      });
    });
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(state.iterations() * static_cast<benchmark::IterationCount>(bytes)));
}

void register_all() {
  measure::each_collective([]<tutti::collective C>() {
    measure::each_algorithm<C>([]<tutti::collective, class... A>(std::string_view algorithm) {
      for (const int ranks : {2, 4, 8}) {
        std::vector<std::size_t> sizes = {8, 64, 512, 4096, 32768, 262144, 2097152, 16777216};
        if (C == tutti::collective::barrier) sizes = {0};
        for (const std::size_t bytes : sizes) {
          const std::string name = std::string(tutti::name_of(C)) + '/' + std::string(algorithm) +
                                   "/ranks:" + std::to_string(ranks) + "/bytes:" + std::to_string(bytes);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) { time_calls<C, A...>(state, ranks, bytes); })
              ->Iterations(20)  // samples
              ->UseManualTime()
              ->Unit(benchmark::kMicrosecond);
        }
      }
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
