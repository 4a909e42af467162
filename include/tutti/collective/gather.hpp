// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/movement.hpp>

namespace tutti {

/// The root's `out` (p * m elements; ignored on other ranks, may be empty) becomes the ranks' `in` (m elements each)
/// one after the other.
///
/// Throws `usage_error` if the root is no rank, or its `out` does not hold p * m elements or overlaps `in`; `mismatch`
/// if the ranks' calls differ. Cost: m(p-1) elements received by the root; 1 round (star) or ceil(log2 p) (binomial).
template <class Algorithm = automatic, class Comm, class In, class Out>
void gather(Comm& comm, const In& in, Out&& out, int root, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::gather;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  const std::size_t count = from.size() * static_cast<std::size_t>(comm.size());
  detail::check_root(comm.place(), verb, root);
  detail::buffers<T> memory{.own_in = from.data(), .result = detail::wanted::none};
  if (comm.rank() == root) {
    detail::check_elements(comm.place(), verb, "root's output", to.size(), count);
    detail::check_overlap(comm.place(), verb, from, to);
    memory.out = to.data();
    memory.result = detail::wanted::all;
  }
  detail::movement<verb, Algorithm, T>(comm, memory, count, from.size(), root, where);
}

/// In place: every rank's `data` has p * m elements and holds this rank's block at its place; the root's holds all
/// blocks afterwards, the others' stay as they are.
template <class Algorithm = automatic, class Comm, class Data>
void gather(Comm& comm, Data&& data, int root, call_site where = call_site::current()) {
  using T = detail::element_t<Data>;
  constexpr auto verb = collective::gather;
  const std::span<T> buffer = detail::writable(data);
  detail::check_root(comm.place(), verb, root);
  const std::size_t each = detail::check_divisible(comm.place(), verb, "buffer", buffer.size());
  detail::buffers<T> memory{.in = buffer.data(), .result = detail::wanted::none};
  if (comm.rank() == root) {
    memory.out = buffer.data();
    memory.result = detail::wanted::all;
  }
  detail::movement<verb, Algorithm, T>(comm, memory, buffer.size(), each, root, where);
}

}  // namespace tutti
