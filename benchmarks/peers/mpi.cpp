// SPDX-License-Identifier: BSL-1.0

// The MPI side of the comparison: one source, compiled with the wrapper of whichever MPI is compared. Its launcher
// starts the ranks and pins them, or they pin themselves where --cpus is given.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../measure.hpp"

namespace {

class world {
 public:
  world() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() const { MPI_Barrier(MPI_COMM_WORLD); }
  double maximum(double mine) const {
    double greatest = 0;
    MPI_Allreduce(&mine, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return greatest;
  }

 private:
  int rank_ = 0, size_ = 0;
};

template <class Use>
void visit(measure::collective what, measure::buffers& data, Use use) {
  using measure::collective;
  const float* in = data.input().data();
  float* out = data.output().data();
  const std::size_t larger = std::max(data.input().size(), data.output().size());
  if (larger > INT_MAX) throw std::invalid_argument("MPI counts at most 2^31 - 1 elements");
  const int whole = static_cast<int>(larger);
  const int block = static_cast<int>(data.block());
  const MPI_Comm all = MPI_COMM_WORLD;
  switch (what) {
    case collective::broadcast:
      return use([=] { MPI_Bcast(out, whole, MPI_FLOAT, 0, all); });
    case collective::scatter:
      return use([=] { MPI_Scatter(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, all); });
    case collective::gather:
      return use([=] { MPI_Gather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, all); });
    case collective::reduce:
      return use([=] { MPI_Reduce(in, out, whole, MPI_FLOAT, MPI_SUM, 0, all); });
    case collective::reduce_scatter: {
      // Each is up to three times slower than the other, depending on library, ranks and size.
      use([=] { MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, all); });
      const std::vector<int> counts(data.input().size() / data.block(), block);
      return use([&] { MPI_Reduce_scatter(in, out, counts.data(), MPI_FLOAT, MPI_SUM, all); });
    }
    case collective::allgather:
      return use([=] { MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, all); });
    case collective::allreduce:
      return use([=] { MPI_Allreduce(in, out, whole, MPI_FLOAT, MPI_SUM, all); });
    case collective::alltoall:
      return use([=] { MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, all); });
    case collective::barrier:
      return use([=] { MPI_Barrier(all); });
  }
}

// How Open MPI moves large messages between processes of one host, as found when it started: cma reads the peer's
// memory in one copy, none copies twice through a shared segment. Other libraries have no such variable and give "".
std::string single_copy_mechanism() {
  int provided = 0, index = 0, count = 0, value = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return "";
  std::string mechanism;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index("btl_vader_single_copy_mechanism", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    char name[64], text[64];
    int name_length = sizeof name, text_length = sizeof text, verbosity = 0, bind = 0, scope = 0, items = 0;
    MPI_Datatype type;
    MPI_T_enum values = MPI_T_ENUM_NULL;
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, &values, text, &text_length, &bind, &scope);
    if (values != MPI_T_ENUM_NULL) {
      MPI_T_enum_get_info(values, &items, name, &name_length);
      for (int i = 0; i < items; ++i) {
        int item = 0;
        name_length = sizeof name;
        MPI_T_enum_get_item(values, i, &item, name, &name_length);
        if (item == value) mechanism = name;
      }
    }
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return mechanism;
}

void report_library() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  std::string line = version;
  line.resize(std::min(line.size(), line.find_first_of(",\n")));
  std::replace(line.begin(), line.end(), '\t', ' ');
  const std::string mechanism = single_copy_mechanism();
  std::printf("# %s%s\n", line.c_str(), mechanism.empty() ? "" : (", single copy: " + mechanism).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  world group;
  try {
    const measure::arguments asked = measure::parse(argc, argv);
    if (asked.ranks != 0 && asked.ranks != group.size()) {
      throw std::invalid_argument("asked for " + std::to_string(asked.ranks) + " ranks, the launcher started " +
                                  std::to_string(group.size()));
    }
    if (asked.algorithm != "auto") throw std::invalid_argument("MPI chooses its algorithms itself");
    measure::pin(group.rank(), asked.cpus);
    if (group.rank() == 0) report_library();
    measure::report_cpus(group);
    if (!asked.dry_run) {
      measure::all_sizes(group, asked,
                         [&](measure::buffers& data, auto use) { visit(asked.what, data, std::move(use)); });
    }
  } catch (const std::invalid_argument& error) {
    if (group.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
