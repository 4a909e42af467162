// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/movement.hpp>

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
  detail::movement<verb, Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()}, buffer.size(), 0, root,
                                       where);
}

}  // namespace tutti
