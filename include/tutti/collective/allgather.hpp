// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/movement.hpp>

namespace tutti {

/// Every rank's `out` (p * m elements) becomes the ranks' `in` (m elements each) one after the other.
///
/// Throws `usage_error` if `out` does not hold p * m elements or overlaps `in`; `mismatch` if the ranks' calls differ.
/// Cost: m(p-1) elements sent and received by each rank, in the rounds of the algorithm.
template <class Algorithm = automatic, class Comm, class In, class Out>
void allgather(Comm& comm, const In& in, Out&& out, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::allgather;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  detail::check_elements(comm.place(), verb, "output", to.size(), from.size() * static_cast<std::size_t>(comm.size()));
  detail::check_overlap(comm.place(), verb, from, to);
  detail::movement<verb, Algorithm, T>(comm, {.own_in = from.data(), .out = to.data()}, to.size(), from.size(), -1,
                                       where);
}

/// In place: `data` (p * m elements) holds this rank's block at its place, and all blocks afterwards.
template <class Algorithm = automatic, class Comm, class Data>
void allgather(Comm& comm, Data&& data, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  const std::span<T> buffer = detail::writable(data);
  const std::size_t each = detail::check_divisible(comm.place(), collective::allgather, "buffer", buffer.size());
  detail::movement<collective::allgather, Algorithm, T>(comm, {.in = buffer.data(), .out = buffer.data()},
                                                        buffer.size(), each, -1, where);
}

}  // namespace tutti
