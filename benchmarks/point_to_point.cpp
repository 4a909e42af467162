// SPDX-License-Identifier: BSL-1.0

// Messages between two ranks, by transport and size: names are kind/transport/bytes, to be chosen with
// --benchmark_filter. ping_pong is the time of one message, half of there and back; one_way that of each of many in one
// direction; exchange that of one each way at once, by sendrecv. Rank r is pinned to the r-th CPU that this process may
// use. With TUTTI_BENCHMARK_TCP defined tcp is one of the transports: two threads that talk over loopback.

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <tutti/run_processes.hpp>
#include <tutti/tutti.hpp>
#if defined(TUTTI_BENCHMARK_TCP)
#include <tutti/run_tcp.hpp>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure.hpp"

namespace {

/// By algorithms that compile fast.
template <class Comm>
class pair_of_ranks {
 public:
  explicit pair_of_ranks(Comm& comm) : comm_(comm) {}
  void barrier() { tutti::barrier<tutti::dissemination>(comm_); }
  double maximum(double mine) {
    std::array<double, 1> greatest{mine};
    tutti::allreduce<tutti::naive>(comm_, greatest, tutti::maximum{});
    return greatest[0];
  }

 private:
  Comm& comm_;
};

enum class kind { ping_pong, one_way, exchange };

constexpr int samples = 20;

/// Seconds of one message in each sample, where processes can write them, too.
class shared_times {
 public:
  shared_times() {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the times");
    times_ = static_cast<double*>(memory);
  }
  shared_times(const shared_times&) = delete;
  shared_times& operator=(const shared_times&) = delete;
  ~shared_times() { munmap(times_, bytes); }
  double& operator[](int i) { return times_[i]; }

 private:
  static constexpr std::size_t bytes = samples * sizeof(double);
  double* times_;
};

std::vector<std::uint8_t> pattern(int rank, std::size_t bytes) {
  std::vector<std::uint8_t> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(rank));
  return made;
}

template <class Comm, class Call>
void time_on_rank(Comm& comm, shared_times& times, Call call, long messages, double per_call) {
  pair_of_ranks group(comm);
  measure::sample(group, call, messages);
  for (int i = 0; i < samples; ++i) {
    const double seconds = measure::sample(group, call, messages) / static_cast<double>(messages) / per_call;
    if (comm.rank() == 0) times[i] = seconds;
  }
}

template <class Comm>
void on_rank(Comm& comm, kind what, std::size_t bytes, shared_times& times) {
  const long messages = std::clamp(20'000'000L / static_cast<long>(bytes + 4000), 3L, 2000L);
  const int peer = 1 - comm.rank();
  const std::vector<std::uint8_t> out = pattern(comm.rank(), bytes);
  std::vector<std::uint8_t> in(bytes);
  switch (what) {
    case kind::ping_pong:
      time_on_rank(
          comm, times,
          [&] {
            if (comm.rank() == 0) tutti::send(comm, peer, out);
            tutti::recv(comm, peer, in);
            if (comm.rank() == 1) tutti::send(comm, peer, out);
          },
          messages, 2);
      break;
    case kind::one_way:
      time_on_rank(
          comm, times, [&] { comm.rank() == 0 ? tutti::send(comm, peer, out) : tutti::recv(comm, peer, in); }, messages,
          1);
      if (comm.rank() == 0) return;
      break;
    case kind::exchange:
      time_on_rank(
          comm, times, [&] { tutti::sendrecv(comm, peer, out, peer, in); }, messages, 1);
      break;
  }
  if (in != pattern(peer, bytes)) throw std::runtime_error("what was received is not what was sent");
}

template <class Run>
void time_messages(benchmark::State& state, Run run, kind what, std::size_t bytes) {
  try {
    shared_times times;
    const auto cpus = measure::allowed_cpus();
    run([&](auto& comm) {
      measure::pin(comm.rank(), cpus);
      on_rank(comm, what, bytes, times);
    });
    int i = 0;
    for ([[maybe_unused]] auto each : state) state.SetIterationTime(times[i++]);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  state.SetBytesProcessed(
      static_cast<std::int64_t>(state.iterations() * static_cast<benchmark::IterationCount>(bytes)));
}

template <class Run>
void register_transport(const std::string& transport, Run run) {
  const auto add = [&](const char* name, kind what) {
    for (const std::size_t bytes : {0U, 8U, 64U, 512U, 4096U, 32768U, 262144U, 2097152U, 16777216U}) {
      benchmark::RegisterBenchmark((std::string(name) + '/' + transport + "/bytes:" + std::to_string(bytes)).c_str(),
                                   [=](benchmark::State& state) { time_messages(state, run, what, bytes); })
          ->Iterations(samples)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  };
  add("ping_pong", kind::ping_pong);
  add("one_way", kind::one_way);
  add("exchange", kind::exchange);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_transport("threads", [](const auto& f) { tutti::run(2, f); });
  register_transport("processes", [](const auto& f) { tutti::run_processes(2, f); });
#if defined(TUTTI_BENCHMARK_TCP)
  register_transport("tcp", [](const auto& f) { tutti::run_tcp(2, f); });
#endif
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
