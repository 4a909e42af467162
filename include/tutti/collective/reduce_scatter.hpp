// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/reduction.hpp>
#include <tutti/core/layout.hpp>

namespace tutti {

/// Rank r's `out` becomes block r of the elementwise fold of all ranks' `in` (n elements each). Blocks are those of
/// `layout{n, p}`: n/p elements, one more in the first n mod p.
///
/// `op` is any associative callable `T(T, T)`, or `average`. If it is not known to commute, only algorithms that keep
/// rank order compile. Throws `usage_error` if `out` does not hold exactly the block or overlaps `in`; `mismatch` if
/// the ranks' calls differ. Cost: n(p-1)/p elements per rank in 1 round (flat) to p-1 (ring).
template <class Algorithm = automatic, class Comm, class In, class Out, class Op>
void reduce_scatter(Comm& comm, const In& in, Out&& out, Op op, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::reduce_scatter;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  const layout blocks(from.size(), comm.size());
  detail::check_elements(comm.place(), verb, "output", to.size(), blocks.size(comm.rank()));
  detail::check_overlap(comm.place(), verb, from, to);
  detail::reduction<verb, Algorithm, T>(comm, {.in = from.data(), .own_out = to.data(), .result = detail::wanted::own},
                                        from.size(), -1, std::move(op), to, blocks.offset(comm.rank()), where);
}

/// In place: `data` (n elements) is the input; returns this rank's block, a part of `data`. The other blocks hold
/// partial results afterwards.
template <class Algorithm = automatic, class Comm, class Data, class Op>
auto reduce_scatter(Comm& comm, Data&& data, Op op, call_site where = call_site::current())
    -> std::span<detail::element_t<Data>> {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  const layout blocks(buffer.size(), comm.size());
  const auto own = buffer.subspan(blocks.offset(comm.rank()), blocks.size(comm.rank()));
  detail::reduction<collective::reduce_scatter, Algorithm, T>(
      comm, {.in = buffer.data(), .out = buffer.data(), .result = detail::wanted::own}, buffer.size(), -1,
      std::move(op), own, blocks.offset(comm.rank()), where);
  return own;
}

}  // namespace tutti
