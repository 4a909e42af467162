// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/scan.hpp>

namespace tutti {

namespace detail {

template <class Algorithm, class T, class Comm, class Op>
TUTTI_ALWAYS_INLINE inline void exclusive_scan(Comm& comm, const buffers<T>& memory, std::span<T> out, Op op,
                                               call_site where) {
  require_prefix_operation<Op>();
  const bool nobody_below = comm.rank() == 0;
  reduction<collective::exscan, Algorithm, T>(comm, memory, out.size(), -1, std::move(op),
                                              nobody_below ? std::span<T>() : out, 0, where);
  if constexpr (identity<Op, T>::known) {
    if (nobody_below)
      for (T& value : out) value = identity<Op, T>::value;
  }
}

}  // namespace detail

/// Every rank's `out` becomes the elementwise fold of `in` (n elements each) of the ranks below itself, in rank order.
/// Below rank 0 there are none: its `out` becomes the operation's identity if that is known (`tutti::identity`), else
/// it stays as it is.
///
/// `op` is any associative callable `T(T, T)`; all algorithms keep rank order. Throws `usage_error` if the sizes differ
/// or the buffers overlap; `mismatch` if the ranks' calls differ. Cost: see the algorithm; ceil(log2 p) rounds of n
/// elements (recursive_doubling, census) or k + p - 2 rounds of n/k (chain).
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
void exscan(Comm& comm, const In& in, Out&& out, Op op, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::exscan;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size());
  detail::check_overlap(comm.place(), verb, from, to);
  detail::exclusive_scan<Algorithm, T>(comm, {.in = from.data(), .out = to.data()}, to, std::move(op), where);
}

/// In place: `data` (n elements) is input and output.
template <class Algorithm = automatic, class Comm, class Data, class Op>
void exscan(Comm& comm, Data&& data, Op op, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  detail::exclusive_scan<Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()}, buffer, std::move(op), where);
}

}  // namespace tutti
