// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/reduction.hpp>

namespace tutti {

/// The root's `out` (n elements; ignored on other ranks, may be empty) becomes the elementwise fold of all ranks' `in`
/// (n elements each).
///
/// `op` is any associative callable `T(T, T)`, or `average`. If it is not known to commute, only algorithms that keep
/// rank order compile. Throws `usage_error` if the root is no rank, or its `out` does not hold n elements or overlaps
/// `in`; `mismatch` if the ranks' calls differ. Cost: see the algorithm; 1 round (star) or ceil(log2 p) (binomial).
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
void reduce(Comm& comm, const In& in, Out&& out, Op op, int root, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::reduce;
  const std::span<const T> from = detail::readable(in);
  std::span<T> to = detail::writable(out);
  detail::check_root(comm.place(), verb, root);
  detail::buffers<T> memory{.in = from.data(), .result = detail::wanted::none};
  if (comm.rank() == root) {
    detail::check_elements(comm.place(), verb, "root's output", to.size(), from.size());
    detail::check_overlap(comm.place(), verb, from, to);
    memory.out = to.data();
    memory.result = detail::wanted::all;
  } else {
    to = {};
  }
  detail::reduction<verb, Algorithm, T>(comm, memory, from.size(), root, std::move(op), to, 0, where);
}

/// In place: the root's `data` (n elements) is input and output; the other ranks' stays as it is.
template <class Algorithm = automatic, class Comm, class Data, class Op>
void reduce(Comm& comm, Data&& data, Op op, int root, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  constexpr auto verb = collective::reduce;
  const std::span<T> buffer = detail::writable(data);
  detail::check_root(comm.place(), verb, root);
  detail::buffers<T> memory{.in = buffer.data(), .result = detail::wanted::none};
  if (comm.rank() == root) {
    memory.out = buffer.data();
    memory.result = detail::wanted::all;
  }
  detail::reduction<verb, Algorithm, T>(comm, memory, buffer.size(), root, std::move(op),
                                        comm.rank() == root ? buffer : std::span<T>(), 0, where);
}

}  // namespace tutti
