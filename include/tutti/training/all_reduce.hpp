// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/allreduce.hpp>
#include <tutti/collective/broadcast.hpp>
#include <tutti/core/call_site.hpp>
#include <tutti/training/synchronisation.hpp>

#include <functional>
#include <span>

namespace tutti {

/// Synchronous data-parallel training without a server: the ranks allreduce the gradient, then each updates all
/// parameters. At first everyone takes rank 0's parameters.
///
/// Cost of a step: one allreduce of the gradient, in place, by `Algorithm`, and one of 8 bytes for the number of
/// samples, by the algorithm that is cheapest. After a step the caller's gradient holds the mean over all ranks'
/// samples.
template <class Algorithm = automatic>
struct all_reduce {
  parameter_range updates(place, std::size_t parameters) const { return {0, parameters}; }

  template <class Communicator, class T>
  void start(Communicator& comm, std::span<T> parameters, call_site where) const {
    tutti::broadcast(comm, parameters, 0, where);
  }

  template <class Communicator, class T, class Update>
  void step(Communicator& comm, std::span<T>, std::span<T> gradient, std::uint64_t samples, Update&& update,
            call_site where) const {
    tutti::allreduce(comm, std::span(&samples, 1), std::plus<>{}, where);
    tutti::allreduce<Algorithm>(comm, gradient, std::plus<>{}, where);
    if (samples == 0) return;
    detail::make_mean(gradient, samples);
    update(std::span<const T>(gradient));
  }
};

}  // namespace tutti
