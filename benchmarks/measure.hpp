// SPDX-License-Identifier: BSL-1.0
#pragma once

// This file answers: how is one collective timed? Ours and every peer are measured by this code and no other: the same
// command line, the same buffers, the same check of the result, the same loop.
//
// A program supplies a group, one rank's view of all ranks: rank(), size(), barrier(), and maximum(double), which gives
// every rank the greatest of the values that the ranks passed. All ranks then take the same decisions.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace measure {

/// The collectives that are compared. Rooted ones have rank 0 as root; reductions are sums of float.
enum class collective { broadcast, scatter, gather, reduce, reduce_scatter, allgather, allreduce, alltoall, barrier };

inline constexpr std::array<std::string_view, 9> names = {
    "broadcast", "scatter", "gather", "reduce", "reduce_scatter", "allgather", "allreduce", "alltoall", "barrier"};

constexpr std::string_view name_of(collective which) { return names[static_cast<std::size_t>(which)]; }

/// What the command line asks for.
struct arguments {
  collective what = collective::allreduce;
  std::string algorithm = "auto";        // of our own library; peers choose theirs
  std::string transport = "threads";     // likewise
  bool allocated = false;                // in memory that our library allocates
  int ranks = 0;                         // 0: as many as the launcher started
  std::vector<std::size_t> bytes = {8};  // of the larger buffer
  double seconds = 0.2;                  // of timing for each size
  std::vector<int> cpus;                 // rank r runs on cpus[r % cpus.size()]; empty: left to the launcher
  bool dry_run = false;                  // only say whether the arguments make sense
};

template <class Number>
Number number(std::string_view option, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < Number{}) {
    throw std::invalid_argument("'" + std::string(text) + "' is not a number for " + std::string(option));
  }
  return value;
}

template <class Number>
std::vector<Number> numbers(std::string_view option, std::string_view text) {
  std::vector<Number> values;
  for (;;) {
    const std::size_t comma = text.find(',');
    values.push_back(number<Number>(option, text.substr(0, comma)));
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

/// Reads the command line. Throws std::invalid_argument with one line for the user.
inline arguments parse(int argc, const char* const* argv) {
  arguments asked;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--dry-run") {
      asked.dry_run = true;
      continue;
    }
    if (i + 1 == argc)
      throw std::invalid_argument("unknown argument, or one without its value: " + std::string(option));
    const std::string_view value = argv[++i];
    if (option == "--collective") {
      const auto found = std::find(names.begin(), names.end(), value);
      if (found == names.end()) throw std::invalid_argument("unknown collective '" + std::string(value) + "'");
      asked.what = static_cast<collective>(found - names.begin());
    } else if (option == "--algorithm") {
      asked.algorithm = value;
    } else if (option == "--transport") {
      asked.transport = value;
    } else if (option == "--memory") {
      if (value != "private" && value != "allocated")
        throw std::invalid_argument("unknown memory '" + std::string(value) + "'; there are private, allocated");
      asked.allocated = value == "allocated";
    } else if (option == "--ranks") {
      asked.ranks = number<int>(option, value);
    } else if (option == "--bytes") {
      asked.bytes = numbers<std::size_t>(option, value);
    } else if (option == "--seconds") {
      asked.seconds = number<double>(option, value);
    } else if (option == "--cpus") {
      asked.cpus = numbers<int>(option, value);
    } else {
      throw std::invalid_argument("unknown argument: " + std::string(option));
    }
  }
  return asked;
}

/// A program of so many ranks: `run(arguments)` says its exit code. Complains, and ends with 2, of what throws
/// std::invalid_argument, and with 1 of what else is thrown.
template <class Run>
int program(int argc, const char* const* argv, Run run) {
  try {
    const arguments asked = parse(argc, argv);
    if (asked.ranks < 1) throw std::invalid_argument("--ranks must be at least 1");
    return run(asked);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// The CPUs that the calling thread may run on.
inline std::vector<int> allowed_cpus() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  std::vector<int> cpus;
  if (pthread_getaffinity_np(pthread_self(), sizeof mine, &mine) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &mine)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Binds the calling thread to its CPU of the list. Called by a rank before it touches its buffers.
inline void pin(int rank, const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(static_cast<std::size_t>(cpus[static_cast<std::size_t>(rank) % cpus.size()]), &mine);
  if (const int error = pthread_setaffinity_np(pthread_self(), sizeof mine, &mine); error != 0) {
    throw std::system_error(error, std::generic_category(), "rank " + std::to_string(rank) + " cannot be pinned");
  }
}

/// The only CPU that the calling thread may run on, or -1 when there are several.
inline int pinned_to() {
  const std::vector<int> cpus = allowed_cpus();
  return cpus.size() == 1 ? cpus.front() : -1;
}

/// Floats that begin at a cache line.
using storage = std::shared_ptr<float>;

/// In memory that only this rank can read, as far as it is in its hands.
inline storage private_memory(std::size_t count) {
  static constexpr std::align_val_t line{64};
  if (count == 0) return {};
  return {static_cast<float*>(::operator new(count * sizeof(float), line)),
          [](float* values) { ::operator delete(values, line); }};
}

/// One rank's input and output of one collective, out of place but for broadcast, which has one buffer: `output()`.
///
/// The larger buffer has the bytes asked for, the whole vector for collectives that deal in blocks. All blocks are
/// equal, so there the size is rounded down to `size` blocks of whole floats, and to no less than one float a block.
class buffers {
 public:
  /// `memory(count)` gives the storage of so many floats.
  template <class Memory>
  buffers(collective what, std::size_t bytes, int rank, int size, Memory&& memory)
      : what_{what},
        rank_{static_cast<std::size_t>(rank)},
        size_{static_cast<std::size_t>(size)},
        block_{std::max<std::size_t>(1, bytes / sizeof(float) / (in_blocks(what) ? size_ : 1))},
        whole_{in_blocks(what) ? block_ * size_ : block_},
        in_memory_{memory(input_size())},
        out_memory_{memory(output_size())},
        in_{in_memory_.get(), input_size()},
        out_{out_memory_.get(), output_size()} {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = value(rank_, i);
    for (std::size_t i = 0; i < period; ++i) {
      for (std::size_t r = 0; r < size_; ++r) sums_[i] += value(r, i);
    }
  }

  std::span<const float> input() const { return in_; }
  std::span<float> output() const { return out_; }
  std::size_t block() const { return block_; }

  /// Makes sure that nothing right is left in the output from before.
  void poison() {
    std::fill(out_.begin(), out_.end(), std::numeric_limits<float>::quiet_NaN());
    if (what_ == collective::broadcast && rank_ == 0) {
      for (std::size_t i = 0; i < whole_; ++i) out_[i] = value(0, i);
    }
  }

  /// Throws std::runtime_error unless the output holds the collective's result.
  void check() const {
    const std::span<const float> result = out_;
    for (std::size_t i = 0; i < result.size(); ++i) {
      // Sums of small whole numbers are exact in any order.
      if (const float right = expected(i); !(result[i] == right)) {
        throw std::runtime_error(std::string(name_of(what_)) + " of " + std::to_string(whole_) + " floats: element " +
                                 std::to_string(i) + " on rank " + std::to_string(rank_) + " of " +
                                 std::to_string(size_) + " is " + std::to_string(result[i]) + ", must be " +
                                 std::to_string(right));
      }
    }
  }

 private:
  static constexpr std::size_t period = 61;

  static constexpr bool in_blocks(collective what) {
    return what == collective::scatter || what == collective::gather || what == collective::reduce_scatter ||
           what == collective::allgather || what == collective::alltoall;
  }

  static float value(std::size_t rank, std::size_t i) { return static_cast<float>((rank * 31 + i) % period); }

  std::size_t input_size() const {
    switch (what_) {
      case collective::scatter:
        return rank_ == 0 ? whole_ : 0;
      case collective::gather:
      case collective::allgather:
        return block_;
      case collective::reduce:
      case collective::reduce_scatter:
      case collective::allreduce:
      case collective::alltoall:
        return whole_;
      case collective::broadcast:
      case collective::barrier:
        break;
    }
    return 0;
  }

  std::size_t output_size() const {
    switch (what_) {
      case collective::gather:
      case collective::reduce:
        return rank_ == 0 ? whole_ : 0;
      case collective::scatter:
      case collective::reduce_scatter:
        return block_;
      case collective::broadcast:
      case collective::allgather:
      case collective::allreduce:
      case collective::alltoall:
        return whole_;
      case collective::barrier:
        break;
    }
    return 0;
  }

  float expected(std::size_t i) const {
    switch (what_) {
      case collective::scatter:
        return value(0, rank_ * block_ + i);
      case collective::gather:
      case collective::allgather:
        return value(i / block_, i % block_);
      case collective::alltoall:
        return value(i / block_, rank_ * block_ + i % block_);
      case collective::reduce:
      case collective::allreduce:
        return sums_[i % period];
      case collective::reduce_scatter:
        return sums_[(rank_ * block_ + i) % period];
      case collective::broadcast:
      case collective::barrier:
        break;
    }
    return value(0, i);
  }

  collective what_;
  std::size_t rank_, size_, block_, whole_;
  storage in_memory_, out_memory_;
  std::span<float> in_, out_;
  std::array<float, period> sums_{};
};

/// Seconds that `iterations` calls back to back take, from a barrier until the last rank has finished its last call.
/// The only place that calls, so that each collective is compiled once.
template <class Group, class Call>
[[gnu::noinline]] double sample(Group& group, Call& call, long iterations) {
  group.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < iterations; ++i) {
    call();
    // Memory is read here as far as the compiler knows: no call may be left out or merged with the next.
    asm volatile("" : : : "memory");
  }
  return group.maximum(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Runs the collective once into a poisoned output and checks what it left there.
template <class Group, class Call>
void check_once(Group& group, buffers& data, Call& call) {
  data.poison();
  sample(group, call, 1);
  data.check();
}

/// The median time of one call in microseconds, over samples of 1 to 5 ms (at least 3 calls) that together take about
/// `seconds`. The result is checked before and after.
template <class Group, class Call>
double microseconds(Group& group, buffers& data, Call& call, double seconds) {
  check_once(group, data, call);

  // One sample can be a thousand times too long where ranks share a core: the number of calls goes by the middle of
  // three.
  const auto typical = [&](long iterations) {
    return median({sample(group, call, iterations), sample(group, call, iterations), sample(group, call, iterations)});
  };
  long iterations = 1;
  double elapsed = typical(iterations);
  while (elapsed < 1e-3) {
    iterations *= static_cast<long>(std::clamp(1.5e-3 / elapsed, 2.0, 10.0));
    elapsed = typical(iterations);
  }
  iterations = std::max(3L, static_cast<long>(static_cast<double>(iterations) * 2.5e-3 / elapsed));
  for (double warm = 0; warm < seconds / 10;) warm += sample(group, call, iterations);

  // What lies between samples is not counted in their time, but must not last for ever either.
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] {
    return group.maximum(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  std::vector<double> samples;
  for (double spent = 0; samples.size() < 3 || (spent < seconds && waited() < 10 * seconds + 1);) {
    samples.push_back(sample(group, call, iterations));
    spent += samples.back();
  }
  data.check();
  return median(std::move(samples)) / static_cast<double>(iterations) * 1e6;
}

/// Times every size that was asked for; rank 0 prints a line `bytes,microseconds` for each as soon as it is known.
/// `visit(data, use)` calls `use(call)`, `call()` being the collective on `data`; where a library has several calls for
/// one collective, it uses each, and the quickest counts.
template <class Group, class Visit>
void all_sizes(Group& group, const arguments& asked, Visit visit) {
  for (const std::size_t bytes : asked.bytes) {
    buffers data(asked.what, bytes, group.rank(), group.size(), [&](std::size_t count) {
      if constexpr (requires { group.allocate(count); }) {
        if (asked.allocated) return group.allocate(count);
      }
      return private_memory(count);
    });
    double quickest = std::numeric_limits<double>::infinity();
    visit(data, [&](auto call) { quickest = std::min(quickest, microseconds(group, data, call, asked.seconds)); });
    if (group.rank() == 0) {
      std::printf("%zu,%.6g\n", bytes, quickest);
      std::fflush(stdout);
    }
  }
}

/// Rank 0 says which CPU each rank is pinned to (-1: none) in a line that begins with #.
template <class Group>
void report_cpus(Group& group) {
  std::string line = "# cpus";
  for (int rank = 0; rank < group.size(); ++rank) {
    const double cpu = group.maximum(group.rank() == rank ? pinned_to() : -1);
    line += ' ' + std::to_string(static_cast<int>(cpu));
  }
  if (group.rank() == 0) std::puts(line.c_str());
}

}  // namespace measure
