// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/reduction.hpp>

namespace tutti {

namespace detail {

template <class Op>
constexpr void require_prefix_operation() {
  static_assert(!std::is_same_v<Op, average>, "tutti: average is not defined for scan and exscan: sum and divide");
}

}  // namespace detail

/// Every rank's `out` becomes the elementwise fold of `in` (n elements each) of the ranks up to and including itself,
/// in rank order.
///
/// `op` is any associative callable `T(T, T)`; all algorithms keep rank order. Throws `usage_error` if the sizes differ
/// or the buffers overlap; `mismatch` if the ranks' calls differ. Cost: see the algorithm; ceil(log2 p) rounds of n
/// elements (recursive_doubling, census) or k + p - 2 rounds of n/k (chain).
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
void scan(Comm& comm, const In& in, Out&& out, Op op, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  detail::require_prefix_operation<Op>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::scan;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size());
  detail::check_overlap(comm.place(), verb, from, to);
  detail::reduction<verb, Algorithm, T>(comm, {.in = from.data(), .out = to.data()}, to.size(), -1, std::move(op), to,
                                        0, where);
}

/// In place: `data` (n elements) is input and output.
template <class Algorithm = automatic, class Comm, class Data, class Op>
void scan(Comm& comm, Data&& data, Op op, call_site where = call_site::current()) {
  detail::require_prefix_operation<Op>();
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  detail::reduction<collective::scan, Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()}, buffer.size(),
                                                    -1, std::move(op), buffer, 0, where);
}

}  // namespace tutti
