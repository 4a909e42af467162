// SPDX-License-Identifier: BSL-1.0

// Gloo over its TCP transport on loopback: ranks are processes that meet by files. Not pinned: each rank has a thread
// for its sockets beside the one that calls. Where Gloo has several algorithms the quickest counts, as those who know
// it would choose.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../measure.hpp"
#include "../ranks.hpp"

namespace {

// Where the ranks leave their addresses for each other; removed in the end.
class meeting_folder {
 public:
  meeting_folder() : path_{(std::filesystem::temp_directory_path() / "compare_gloo_XXXXXX").string()} {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  meeting_folder(const meeting_folder&) = delete;
  meeting_folder& operator=(const meeting_folder&) = delete;
  ~meeting_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using context = std::shared_ptr<gloo::rendezvous::Context>;

context meet(int rank, int size, const std::string& folder) {
  gloo::transport::tcp::attr where;
  where.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto met = std::make_shared<gloo::rendezvous::Context>(rank, size);
  met->setTimeout(std::chrono::seconds(30));
  gloo::rendezvous::FileStore store(folder);
  met->connectFullMesh(store, device);
  return met;
}

class world {
 public:
  explicit world(context all) : all_{std::move(all)} {}
  int rank() const { return all_->rank; }
  int size() const { return all_->size; }
  const context& all() const { return all_; }
  void barrier() const {
    gloo::BarrierOptions options(all_);
    gloo::barrier(options);
  }
  double maximum(double mine) const {
    gloo::AllreduceOptions options(all_);
    options.setOutput(&mine, 1);
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, std::size_t n) { gloo::max<double>(out, a, b, n); });
    gloo::allreduce(options);
    return mine;
  }

 private:
  context all_;
};

const auto sum = [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<float>(out, a, b, n); };

int count_of(std::size_t elements) {
  if (elements > INT_MAX) throw std::invalid_argument("this algorithm of Gloo counts at most 2^31 - 1 elements");
  return static_cast<int>(elements);
}

template <class Use>
void allreduce(const context& all, std::span<float> in, std::span<float> out, Use use) {
  using algorithm = gloo::AllreduceOptions::Algorithm;
  for (const algorithm which : {algorithm::RING, algorithm::BCUBE}) {
    use([=, &all] {
      gloo::AllreduceOptions options(all);
      options.setAlgorithm(which);
      options.setInput(in.data(), in.size());
      options.setOutput(out.data(), out.size());
      options.setReduceFunction(sum);
      gloo::allreduce(options);
    });
  }
  // The older kind of algorithm: made once for its memory, in place.
  gloo::AllreduceHalvingDoubling<float> halving_doubling(all, {out.data()}, count_of(out.size()));
  use([in, out, &halving_doubling] {
    std::copy(in.begin(), in.end(), out.begin());
    halving_doubling.run();
  });
}

template <class Use>
void reduce_scatter(const context& all, std::span<float> in, std::span<float> out, Use use) {
  // There is only the older kind.
  std::vector<float> work(in.size());
  const std::vector<int> counts(in.size() / out.size(), count_of(out.size()));
  gloo::ReduceScatterHalvingDoubling<float> halving(all, {work.data()}, count_of(work.size()), counts);
  use([in, out, &work, &halving] {
    std::copy(in.begin(), in.end(), work.begin());
    halving.run();
    std::copy_n(work.begin(), out.size(), out.begin());
  });
}

template <class Use>
void visit(const world& group, measure::collective what, measure::buffers& data, Use use) {
  using measure::collective;
  const context& all = group.all();
  // Gloo takes what it only reads as if it wrote it.
  const std::span<float> in(const_cast<float*>(data.input().data()), data.input().size());
  const std::span<float> out = data.output();
  const std::size_t block = data.block();
  switch (what) {
    case collective::broadcast:
      return use([=, &all] {
        gloo::BroadcastOptions options(all);
        options.setRoot(0);
        options.setOutput(out.data(), out.size());
        gloo::broadcast(options);
      });
    case collective::scatter:
      return use([=, &all, &group] {
        gloo::ScatterOptions options(all);
        options.setRoot(0);
        if (group.rank() == 0) {
          std::vector<float*> blocks;
          for (std::size_t i = 0; i < in.size(); i += block) blocks.push_back(in.data() + i);
          options.setInputs(blocks, block);
        }
        options.setOutput(out.data(), out.size());
        gloo::scatter(options);
      });
    case collective::gather:
      return use([=, &all, &group] {
        gloo::GatherOptions options(all);
        options.setRoot(0);
        options.setInput(in.data(), in.size());
        if (group.rank() == 0) options.setOutput(out.data(), out.size());
        gloo::gather(options);
      });
    case collective::reduce: {
      std::vector<float> work(group.rank() == 0 ? 0 : in.size());  // every rank needs an output
      const std::span<float> sums = group.rank() == 0 ? out : std::span<float>(work);
      return use([=, &all] {
        gloo::ReduceOptions options(all);
        options.setRoot(0);
        options.setInput(in.data(), in.size());
        options.setOutput(sums.data(), sums.size());
        options.setReduceFunction(sum);
        gloo::reduce(options);
      });
    }
    case collective::reduce_scatter:
      return reduce_scatter(all, in, out, use);
    case collective::allgather:
      return use([=, &all] {
        gloo::AllgatherOptions options(all);
        options.setInput(in.data(), in.size());
        options.setOutput(out.data(), out.size());
        gloo::allgather(options);
      });
    case collective::allreduce:
      return allreduce(all, in, out, use);
    case collective::alltoall:
      return use([=, &all] {
        gloo::AlltoallOptions options(all);
        options.setInput(in.data(), in.size());
        options.setOutput(out.data(), out.size());
        gloo::alltoall(options);
      });
    case collective::barrier:
      return use([&group] { group.barrier(); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return measure::program(argc, argv, [](const measure::arguments& asked) {
    if (asked.algorithm != "auto") throw std::invalid_argument("Gloo's algorithms are all tried");
    const meeting_folder folder;
    return measure::in_processes(asked.ranks, [&](int rank) {
      measure::pin(rank, asked.cpus);
      world all(meet(rank, asked.ranks, folder.path()));
      if (rank == 0) std::printf("# Gloo %d.%d.%d\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
      measure::report_cpus(all);
      if (asked.dry_run) return;
      measure::all_sizes(all, asked,
                         [&](measure::buffers& data, auto use) { visit(all, asked.what, data, std::move(use)); });
      all.barrier();  // nobody closes a connection that another is still reading
    });
  });
}
