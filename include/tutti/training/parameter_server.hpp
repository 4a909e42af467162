// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/broadcast.hpp>
#include <tutti/collective/reduce.hpp>
#include <tutti/core/call_site.hpp>
#include <tutti/training/synchronisation.hpp>

#include <functional>
#include <span>

namespace tutti {

/// Synchronous data-parallel training through a server, which is one of the ranks: the gradient is reduced to it, it
/// alone updates and keeps the rule's state, and it broadcasts the parameters. At first everyone takes the server's.
///
/// Cost of a step: one reduce of the gradient, in place, and one broadcast of the parameters, by `Algorithm`; one
/// reduce of 8 bytes for the number of samples, by the algorithm that is cheapest. After a step the server's gradient
/// holds the mean over all ranks' samples, the others' is unspecified. Where the algorithms add in the same order the
/// parameters are bitwise those of `all_reduce`.
template <class Algorithm = automatic>
struct parameter_server {
  int server = 0;

  parameter_range updates(place at, std::size_t parameters) const {
    return {0, at.rank == server ? parameters : std::size_t{0}};
  }

  template <class Communicator, class T>
  void start(Communicator& comm, std::span<T> parameters, call_site where) const {
    tutti::broadcast<Algorithm>(comm, parameters, server, where);
  }

  template <class Communicator, class T, class Update>
  void step(Communicator& comm, std::span<T> parameters, std::span<T> gradient, std::uint64_t samples, Update&& update,
            call_site where) const {
    tutti::reduce(comm, std::span(&samples, 1), std::plus<>{}, server, where);
    tutti::reduce<Algorithm>(comm, gradient, std::plus<>{}, server, where);
    if (comm.rank() == server && samples != 0) {
      detail::make_mean(gradient, samples);
      update(std::span<const T>(gradient));
    }
    tutti::broadcast<Algorithm>(comm, parameters, server, where);
  }
};

}  // namespace tutti
