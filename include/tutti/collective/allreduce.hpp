// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/reduction.hpp>

namespace tutti {

/// Every rank's `out` becomes the elementwise fold of all ranks' `in` (n elements each), bitwise the same on every
/// rank.
///
/// `op` is any associative callable `T(T, T)`, or `average`. If it is not known to commute, only algorithms that keep
/// rank order compile. Throws `usage_error` if the sizes differ or the buffers overlap; `mismatch` if the ranks' calls
/// differ. Cost: see the algorithm; 2n(p-1)/p elements per rank in 2 rounds (flat) to 2 ceil(log2 p) (circulant).
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
void allreduce(Comm& comm, const In& in, Out&& out, Op op, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::allreduce;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size());
  detail::check_overlap(comm.place(), verb, from, to);
  detail::reduction<verb, Algorithm, T>(comm, {.in = from.data(), .out = to.data()}, to.size(), -1, std::move(op), to,
                                        0, where);
}

/// In place: `data` (n elements) is input and output.
template <class Algorithm = automatic, class Comm, class Data, class Op>
void allreduce(Comm& comm, Data&& data, Op op, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  detail::reduction<collective::allreduce, Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()},
                                                         buffer.size(), -1, std::move(op), buffer, 0, where);
}

}  // namespace tutti
