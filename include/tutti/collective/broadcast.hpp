// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/select.hpp>

namespace tutti {

/// Every rank's `data` (n elements, the same n everywhere) becomes the root's.
///
/// Throws `usage_error` if the root is no rank; `mismatch` if the ranks' calls differ. Cost: see the algorithm; at
/// least ceil(log2 p) rounds with one port, n elements received by each rank.
template <class Algorithm = automatic, class Comm, class Data>
void broadcast(Comm& comm, Data&& data, int root, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  constexpr auto verb = collective::broadcast;
  const std::span<T> buffer = detail::writable(data);
  detail::check_root(comm.place(), verb, root);
  detail::choose<verb, Algorithm, true>(
      comm, buffer.size_bytes(), [&]<class A>() __attribute__((always_inline)) {
        const schedule_for<verb, A> schedule{root};
        const detail::buffers<T> memory{.in = buffer.data(), .out = buffer.data()};
        detail::run_schedule(
            comm, detail::make_call<verb, A, T, detail::no_operation>(comm, buffer.size(), root, where), schedule,
            detail::storage_for<T, schedule_for<verb, A>>(memory, buffer.size(), schedule.blocks(comm.size()),
                                                          comm.rank(), comm.scratch()),
            detail::no_operation{}, detail::streams<T>(buffer.size()));
      });
}

}  // namespace tutti
