// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/movement.hpp>

namespace tutti {

/// Rank r's `out` (m elements) becomes block r of the root's `in` (p * m elements; ignored on other ranks, may be
/// empty).
///
/// Throws `usage_error` if the root is no rank, or its `in` does not hold p * m elements or overlaps `out`; `mismatch`
/// if the ranks' calls differ. Cost: m(p-1) elements sent by the root; 1 round (star) or ceil(log2 p) (binomial).
template <class Algorithm = automatic, class Comm, class In, class Out>
void scatter(Comm& comm, const In& in, Out&& out, int root, call_site where = call_site::current()) {
  detail::require_same_element<In, Out>();
  using T = detail::element_t<In>;
  constexpr auto verb = collective::scatter;
  const std::span<const T> from = detail::readable(in);
  const std::span<T> to = detail::writable(out);
  const std::size_t count = to.size() * static_cast<std::size_t>(comm.size());
  detail::check_root(comm.place(), verb, root);
  if (comm.rank() == root) {
    detail::check_elements(comm.place(), verb, "root's input", from.size(), count);
    detail::check_overlap(comm.place(), verb, from, to);
  }
  detail::movement<verb, Algorithm, T>(
      comm, {.in = comm.rank() == root ? from.data() : nullptr, .own_out = to.data(), .result = detail::wanted::own},
      count, to.size(), root, where);
}

/// In place: every rank's `data` has p * m elements; the root's holds all blocks. Returns this rank's block, a part of
/// `data`; the other blocks stay as they are.
template <class Algorithm = automatic, class Comm, class Data>
auto scatter(Comm& comm, Data&& data, int root, call_site where = call_site::current())
    -> std::span<detail::element_t<Data>> {
  using T = detail::element_t<Data>;
  constexpr auto verb = collective::scatter;
  const std::span<T> buffer = detail::writable(data);
  detail::check_root(comm.place(), verb, root);
  const std::size_t each = detail::check_divisible(comm.place(), verb, "buffer", buffer.size());
  const auto own = buffer.subspan(each * static_cast<std::size_t>(comm.rank()), each);
  detail::movement<verb, Algorithm, T>(
      comm, {.in = comm.rank() == root ? buffer.data() : nullptr, .own_out = own.data(), .result = detail::wanted::own},
      buffer.size(), each, root, where);
  return own;
}

}  // namespace tutti
