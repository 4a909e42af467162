// SPDX-License-Identifier: BSL-1.0

// What tutti::native costs beside the direct call of MPI's, measured alternately in one run:
//   mpirun -n 2 benchmarks.native [seconds]
// One line for each collective and size: bytes, median nanoseconds of a call of both, and the median ratio of a batch
// of ours to those before and after it.

#include <tutti/run_mpi.hpp>
#include <tutti/tutti.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

namespace {

using communicator = tutti::communicator<tutti::mpi>;
using steady = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Nanoseconds of a call, as long as the slowest rank took.
template <class Call>
double batch(int calls, Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = steady::now();
  for (int i = 0; i < calls; ++i) call();
  double taken = std::chrono::duration<double, std::nano>(steady::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return taken;
}

template <class Ours, class Theirs>
void compare(communicator& comm, const char* what, std::size_t bytes, double seconds, Ours ours, Theirs theirs) {
  for (int i = 0; i < 100; ++i) ours(), theirs();
  const double once = std::max(batch(100, theirs), 50.0);
  const int calls = std::clamp(static_cast<int>(200e3 / once), 4, 2000);
  const int turns = std::clamp(static_cast<int>(seconds * 1e9 / (2 * once * calls)), 11, 2001);
  std::vector<double> mine;
  std::vector<double> direct(1, batch(calls, theirs));
  std::vector<double> ratios;
  for (int turn = 0; turn < turns; ++turn) {
    mine.push_back(batch(calls, ours));
    direct.push_back(batch(calls, theirs));
    ratios.push_back(2 * mine.back() / (direct[direct.size() - 2] + direct.back()));
  }
  if (comm.rank() == 0)
    std::printf("%s,%d,%zu,%.1f,%.1f,%.3f\n", what, comm.size(), bytes, median(mine), median(direct), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  tutti::run_mpi([&](communicator& comm) {
    using tutti::native;
    if (comm.rank() == 0) std::printf("collective,ranks,bytes,native_ns,direct_ns,ratio\n");
    compare(
        comm, "barrier", 0, seconds, [&] { tutti::barrier<native>(comm); }, [&] { MPI_Barrier(MPI_COMM_WORLD); });
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
      const std::size_t n = bytes / sizeof(float);
      const int count = static_cast<int>(n);
      const std::vector<float> in(n, 1.0F);
      std::vector<float> out(n);
      compare(
          comm, "allreduce", bytes, seconds, [&] { tutti::allreduce<native>(comm, in, out, std::plus{}); },
          [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
      compare(
          comm, "reduce", bytes, seconds, [&] { tutti::reduce<native>(comm, in, out, std::plus{}, 0); },
          [&] { MPI_Reduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); });
      compare(
          comm, "broadcast", bytes, seconds, [&] { tutti::broadcast<native>(comm, out, 0); },
          [&] { MPI_Bcast(out.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD); });
      const std::size_t each = std::max<std::size_t>(1, n / static_cast<std::size_t>(comm.size()));
      std::vector<float> whole(each * static_cast<std::size_t>(comm.size()));
      std::vector<float> other(whole.size());
      std::vector<float> part(each);
      const int block = static_cast<int>(each);
      compare(
          comm, "allgather", bytes, seconds, [&] { tutti::allgather<native>(comm, part, whole); },
          [&] { MPI_Allgather(part.data(), block, MPI_FLOAT, whole.data(), block, MPI_FLOAT, MPI_COMM_WORLD); });
      compare(
          comm, "alltoall", bytes, seconds, [&] { tutti::alltoall<native>(comm, whole, other); },
          [&] { MPI_Alltoall(whole.data(), block, MPI_FLOAT, other.data(), block, MPI_FLOAT, MPI_COMM_WORLD); });
    }
  });
}
