// SPDX-License-Identifier: BSL-1.0
#pragma once

// The checks of the collectives that move values: one call in each form, and what must come of it.

#include <tutti/collective/allgather.hpp>
#include <tutti/collective/alltoall.hpp>
#include <tutti/collective/broadcast.hpp>
#include <tutti/collective/gather.hpp>
#include <tutti/collective/scatter.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"

namespace conformance {

template <class A, class T>
void check_broadcast(auto& comm, findings& found, const values<T>& data, std::size_t n, int root) {
  found.about("broadcast<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>(), " from ", root);
  guarded<T> buffer = comm.rank() == root ? guarded<T>(data.of(root, n)) : guarded<T>(n, 2);
  tutti::broadcast<A>(comm, buffer.span(), root);
  check_output(found, buffer, data.of(root, n));
}

template <class A, class T>
void check_scatter(auto& comm, findings& found, const values<T>& data, std::size_t m, int root) {
  const auto p = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::span<const T> all = data.of(root, m * p);
  const std::span<const T> expected = all.subspan(rank * m, m);
  const bool is_root = comm.rank() == root;
  found.about("scatter<", tutti::name_of<A>(), "> of ", m, " x ", tutti::type_name<T>(), " to each from ", root);
  {
    // Elsewhere than at the root the input may be anything.
    const guarded<T> in = is_root ? guarded<T>(all) : guarded<T>(comm.rank() % 2 == 0 ? m * p : 0);
    guarded<T> out(m, 2);
    tutti::scatter<A>(comm, in.values(), out.span(), root);
    check_output(found, out, expected);
    if (is_root) {
      check_input(found, in, all);
    } else {
      found.check(in.untouched(), "the input of a rank that is not the root was written");
    }
  }
  guarded<T> inout = is_root ? guarded<T>(all, 3) : guarded<T>(data.of(comm.rank(), m * p), 3);
  std::vector<T> after(inout.values().begin(), inout.values().end());
  std::copy(expected.begin(), expected.end(), after.begin() + static_cast<std::ptrdiff_t>(rank * m));
  const std::span<T> own = tutti::scatter<A>(comm, inout.span(), root);
  check_output(found, inout, std::span<const T>(after));
  found.check(own.data() == inout.span().data() + rank * m && own.size() == m, "the block returned lies elsewhere");
}

template <class A, class T>
void check_gather(auto& comm, findings& found, const values<T>& data, std::size_t m, int root) {
  const auto p = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::span<const T> mine = data.of(comm.rank(), m);
  const std::vector<T> all = joined(data, comm.size(), m);
  const bool is_root = comm.rank() == root;
  found.about("gather<", tutti::name_of<A>(), "> of ", m, " x ", tutti::type_name<T>(), " from each to ", root);
  {
    const guarded<T> in(mine);
    // Elsewhere than at the root the output may be anything, and stays what it is.
    guarded<T> out(is_root || comm.rank() % 2 == 0 ? m * p : 0, 2);
    tutti::gather<A>(comm, in.values(), out.span(), root);
    if (is_root) {
      check_output(found, out, std::span<const T>(all));
    } else {
      found.check(out.untouched(), "the output of a rank that is not the root was written");
    }
    check_input(found, in, mine);
  }
  guarded<T> inout(m * p, 3);
  std::copy(mine.begin(), mine.end(), inout.span().begin() + static_cast<std::ptrdiff_t>(rank * m));
  const std::vector<T> before(inout.values().begin(), inout.values().end());
  tutti::gather<A>(comm, inout.span(), root);
  check_output(found, inout, std::span<const T>(is_root ? all : before));
}

template <class A, class T>
void check_allgather(auto& comm, findings& found, const values<T>& data, std::size_t m) {
  const auto p = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::span<const T> mine = data.of(comm.rank(), m);
  const std::vector<T> all = joined(data, comm.size(), m);
  found.about("allgather<", tutti::name_of<A>(), "> of ", m, " x ", tutti::type_name<T>(), " from each");
  {
    const guarded<T> in(mine);
    guarded<T> out(m * p, 2);
    tutti::allgather<A>(comm, in.values(), out.span());
    check_output(found, out, std::span<const T>(all));
    check_input(found, in, mine);
  }
  guarded<T> inout(m * p, 3);
  std::copy(mine.begin(), mine.end(), inout.span().begin() + static_cast<std::ptrdiff_t>(rank * m));
  tutti::allgather<A>(comm, inout.span());
  check_output(found, inout, std::span<const T>(all));
}

template <class A, class T>
void check_alltoall(auto& comm, findings& found, const values<T>& data, std::size_t m) {
  const auto p = static_cast<std::size_t>(comm.size());
  const std::span<const T> mine = data.of(comm.rank(), m * p);
  std::vector<T> expected;
  for (int from = 0; from < comm.size(); ++from) {
    const auto block = data.of(from, m * p).subspan(static_cast<std::size_t>(comm.rank()) * m, m);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  found.about("alltoall<", tutti::name_of<A>(), "> of ", m, " x ", tutti::type_name<T>(), " to each");
  {
    const guarded<T> in(mine);
    guarded<T> out(m * p, 2);
    tutti::alltoall<A>(comm, in.values(), out.span());
    check_output(found, out, std::span<const T>(expected));
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::alltoall<A>(comm, inout.span());
  check_output(found, inout, std::span<const T>(expected));
}

/// The check of that collective, with each of these roots if it has one.
template <tutti::collective C, class A, class T>
void check_movement(auto& comm, findings& found, const values<T>& data, std::size_t n, std::span<const int> roots) {
  if constexpr (C == tutti::collective::broadcast) {
    for (const int root : roots) check_broadcast<A>(comm, found, data, n, root);
  } else if constexpr (C == tutti::collective::scatter) {
    for (const int root : roots) check_scatter<A>(comm, found, data, n, root);
  } else if constexpr (C == tutti::collective::gather) {
    for (const int root : roots) check_gather<A>(comm, found, data, n, root);
  } else if constexpr (C == tutti::collective::allgather) {
    check_allgather<A>(comm, found, data, n);
  } else {
    static_assert(C == tutti::collective::alltoall);
    check_alltoall<A>(comm, found, data, n);
  }
}

}  // namespace conformance
