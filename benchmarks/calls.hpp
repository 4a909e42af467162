// SPDX-License-Identifier: BSL-1.0
#pragma once

// This file answers: which of our calls are measured? It gives measure.hpp a group, and the calls by collective and
// algorithm.

#include <tutti/tutti.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "measure.hpp"

namespace measure {

template <class... Algorithm>
struct algorithm_list {};

/// Every algorithm that can be asked for by name.
using algorithms =
    algorithm_list<tutti::flat, tutti::ring, tutti::circulant, tutti::pat, tutti::bruck, tutti::hypercube_halving,
                   tutti::hypercube_doubling, tutti::halving_doubling, tutti::recursive_doubling, tutti::binomial,
                   tutti::star, tutti::single_master, tutti::naive, tutti::scatter_allgather, tutti::dissemination,
                   tutti::recursive_multiplying<4>, tutti::reduce_scatter_gather>;

/// The ranks of a communicator.
template <class Communicator>
class group {
 public:
  explicit group(Communicator& comm) : comm_{comm} {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  void barrier() { tutti::barrier(comm_); }
  double maximum(double mine) {
    double greatest = mine;
    tutti::allreduce(comm_, std::span(&greatest, 1), tutti::maximum{});
    return greatest;
  }
  storage allocate(std::size_t count) {
    auto buffer = std::make_shared<tutti::shared_buffer<float>>(comm_.template allocate<float>(count));
    return {buffer, buffer->data()};
  }

 private:
  Communicator& comm_;
};

/// Calls `use(call)`, `call()` being collective C on `data` by the algorithm, or by the library's choice if none is
/// given.
template <tutti::collective C, class... Algorithm, class Communicator, class Use>
void with_call(Communicator& comm, buffers& data, Use use) {
  using enum tutti::collective;
  const auto in = data.input();
  const auto out = data.output();
  if constexpr (C == broadcast) {
    use([&comm, out] { tutti::broadcast<Algorithm...>(comm, out, 0); });
  } else if constexpr (C == scatter) {
    use([&comm, in, out] { tutti::scatter<Algorithm...>(comm, in, out, 0); });
  } else if constexpr (C == gather) {
    use([&comm, in, out] { tutti::gather<Algorithm...>(comm, in, out, 0); });
  } else if constexpr (C == reduce) {
    use([&comm, in, out] { tutti::reduce<Algorithm...>(comm, in, out, std::plus{}, 0); });
  } else if constexpr (C == reduce_scatter) {
    use([&comm, in, out] { tutti::reduce_scatter<Algorithm...>(comm, in, out, std::plus{}); });
  } else if constexpr (C == allgather) {
    use([&comm, in, out] { tutti::allgather<Algorithm...>(comm, in, out); });
  } else if constexpr (C == allreduce) {
    use([&comm, in, out] { tutti::allreduce<Algorithm...>(comm, in, out, std::plus{}); });
  } else if constexpr (C == alltoall) {
    use([&comm, in, out] { tutti::alltoall<Algorithm...>(comm, in, out); });
  } else {
    use([&comm] { tutti::barrier<Algorithm...>(comm); });
  }
}

/// `visit.operator()<C, A>(name)` for every algorithm A that can do collective C, and `visit.operator()<C>("auto")`
/// first.
template <tutti::collective C, class Visit>
void each_algorithm(Visit visit) {
  visit.template operator()<C>(std::string_view{"auto"});
  [&]<class... A>(algorithm_list<A...>) {
    const auto one = [&]<class Algorithm>() {
      if constexpr (tutti::implements<Algorithm, C>) {
        visit.template operator()<C, Algorithm>(tutti::name_of<Algorithm>());
      }
    };
    (one.template operator()<A>(), ...);
  }(algorithms{});
#if defined(TUTTI_COMPARE_MPI)
  visit.template operator()<C, tutti::native>(std::string_view{"native"});
#endif
}

/// `visit.operator()<C>()` for every collective C, or for the one that this program is compiled for.
template <class Visit>
void each_collective(Visit visit) {
#if defined(TUTTI_COMPARE_COLLECTIVE)
  visit.template operator()<tutti::collective::TUTTI_COMPARE_COLLECTIVE>();
#else
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    static_assert(((tutti::name_of(static_cast<tutti::collective>(I)) == names[I]) && ...));
    (visit.template operator()<static_cast<tutti::collective>(I)>(), ...);
  }
  (std::make_index_sequence<names.size()>{});
#endif
}

}  // namespace measure
