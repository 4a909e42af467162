// SPDX-License-Identifier: BSL-1.0

// Every collective by every algorithm among ranks that are threads, by size: names are
// collective/algorithm/ranks/bytes, to be chosen with --benchmark_filter. Then what an allreduce of other numbers costs
// beside that of as many floats: sums/element/operation/algorithm/ranks/elements. The time is that of one call, until
// the last rank has finished; rank r is pinned to the r-th CPU that this process may use.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
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
      measure::buffers data(static_cast<measure::collective>(C), bytes, comm.rank(), comm.size(),
                            measure::private_memory);
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

/// Out of place, of small whole numbers: their sum is exact in every type.
template <class T, class Op, class... Algorithm>
void time_sums(benchmark::State& state, int ranks, std::size_t elements) {
  const long calls = std::clamp(1'000'000L / static_cast<long>(elements + 1000), 3L, 1000L);
  const auto cpus = measure::allowed_cpus();
  try {
    tutti::run(ranks, [&](auto& comm) {
      measure::pin(comm.rank(), cpus);
      measure::group group(comm);
      std::vector<T> in(elements), out(elements);
      for (std::size_t i = 0; i < elements; ++i) in[i] = static_cast<T>(static_cast<float>(i % 7) + 1.0F);
      const auto call = [&] { tutti::allreduce<Algorithm...>(comm, in, out, Op{}); };
      measure::sample(group, call, calls);
      if (comm.rank() == 0) {
        for ([[maybe_unused]] auto each : state) {
          state.SetIterationTime(measure::sample(group, call, calls) / static_cast<double>(calls));
        }
      } else {
        for (benchmark::IterationCount i = 0; i < state.max_iterations; ++i) measure::sample(group, call, calls);
      }
      for (std::size_t i = 0; i < elements; ++i) {
        if (static_cast<double>(out[i]) != ranks * static_cast<double>(in[i])) throw std::runtime_error("wrong sum");
      }
    });
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  state.SetItemsProcessed(
      static_cast<std::int64_t>(state.iterations() * static_cast<benchmark::IterationCount>(elements)));
}

template <class T, class Op>
void register_sums(const std::string& what) {
  const auto by = [&]<class... A>(const std::string& algorithm) {
    for (const int ranks : {2, 4, 8}) {
      for (const std::size_t elements : std::initializer_list<std::size_t>{1, 1000, 30'000, 1'000'000}) {
        const std::string name = "sums/" + what + '/' + algorithm + "/ranks:" + std::to_string(ranks) +
                                 "/elements:" + std::to_string(elements);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) { time_sums<T, Op, A...>(state, ranks, elements); })
            ->Iterations(20)  // samples
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  };
  by.template operator()<>("auto");
  by.template operator()<tutti::circulant>("circulant");
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
  register_sums<float, std::plus<>>("float/plus");
  register_sums<float, tutti::reproducible_sum>("float/reproducible_sum");
  register_sums<double, std::plus<>>("double/plus");
  register_sums<double, tutti::reproducible_sum>("double/reproducible_sum");
  register_sums<tutti::bfloat16, std::plus<>>("bfloat16/plus");
  register_sums<tutti::float16, std::plus<>>("float16/plus");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
