// SPDX-License-Identifier: BSL-1.0
#pragma once

// The checks of the collectives that fold values: one call in each form, and what must come of it.

#include <tutti/collective/allreduce.hpp>
#include <tutti/collective/exscan.hpp>
#include <tutti/collective/reduce.hpp>
#include <tutti/collective/reduce_scatter.hpp>
#include <tutti/collective/scan.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "collective/conformance.hpp"
#include "collective/elements.hpp"

namespace conformance {

template <class A, class T, class Op>
void check_reduce(auto& comm, findings& found, const contributions<T, Op>& data, std::size_t n, int root) {
  const Op op = data.operation();
  const std::span<const T> mine = data.of(comm.rank(), n);
  const bool is_root = comm.rank() == root;
  found.about("reduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>(), " with ",
              tutti::type_name<Op>(), " to ", root);
  {
    const guarded<T> in(mine);
    // Elsewhere than at the root the output may be anything, and stays what it is.
    guarded<T> out(is_root || comm.rank() % 2 == 0 ? n : 0, 2);
    tutti::reduce<A>(comm, in.values(), out.span(), op, root);
    if (is_root) {
      check_output(found, out, data.fold(n));
    } else {
      found.check(out.untouched(), "the output of a rank that is not the root was written");
    }
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::reduce<A>(comm, inout.span(), op, root);
  if (is_root) {
    check_output(found, inout, data.fold(n));
  } else {
    check_input(found, inout, mine);
  }
}

template <class A, class T, class Op>
void check_reduce_scatter(auto& comm, findings& found, const contributions<T, Op>& data, std::size_t n) {
  const Op op = data.operation();
  const std::span<const T> mine = data.of(comm.rank(), n);
  const tutti::layout blocks(n, comm.size());
  const std::span<const T> expected = data.fold(n).subspan(blocks.offset(comm.rank()), blocks.size(comm.rank()));
  found.about("reduce_scatter<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>(), " with ",
              tutti::type_name<Op>());
  {
    const guarded<T> in(mine);
    guarded<T> out(expected.size(), 2);
    tutti::reduce_scatter<A>(comm, in.values(), out.span(), op);
    check_output(found, out, expected);
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  const std::span<T> own = tutti::reduce_scatter<A>(comm, inout.span(), op);
  found.same("the block returned", std::span<const T>(own), expected);
  found.check(own.data() == inout.span().data() + blocks.offset(comm.rank()), "the block returned lies elsewhere");
  found.check(inout.intact(), "the buffer was written outside its bounds");
}

template <class A, class T, class Op>
void check_allreduce(auto& comm, findings& found, const contributions<T, Op>& data, std::size_t n) {
  const Op op = data.operation();
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("allreduce<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>(), " with ",
              tutti::type_name<Op>());
  {
    const guarded<T> in(mine);
    guarded<T> out(n, 2);
    tutti::allreduce<A>(comm, in.values(), out.span(), op);
    check_output(found, out, data.fold(n));
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::allreduce<A>(comm, inout.span(), op);
  check_output(found, inout, data.fold(n));
}

/// The check of that collective, with each of these roots if it has one.
template <tutti::collective C, class A, class T, class Op>
void check_reduction(auto& comm, findings& found, const contributions<T, Op>& data, std::size_t n,
                     std::span<const int> roots) {
  if constexpr (C == tutti::collective::reduce) {
    for (const int root : roots) check_reduce<A>(comm, found, data, n, root);
  } else if constexpr (C == tutti::collective::reduce_scatter) {
    check_reduce_scatter<A>(comm, found, data, n);
  } else {
    static_assert(C == tutti::collective::allreduce);
    check_allreduce<A>(comm, found, data, n);
  }
}

/// Whole vectors: every rank gets the fold of the ranks up to itself.
template <class A, class T, class Op>
void check_scan(auto& comm, findings& found, const contributions<T, Op>& data, const prefixes<T, Op>& expected,
                std::size_t n) {
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("scan<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
  {
    const guarded<T> in(mine);
    guarded<T> out(n, 2);
    tutti::scan<A>(comm, in.values(), out.span(), data.operation());
    check_output(found, out, expected.up_to(comm.rank(), n));
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::scan<A>(comm, inout.span(), data.operation());
  check_output(found, inout, expected.up_to(comm.rank(), n));
}

/// Every rank gets the fold of the ranks below itself, rank 0 the identity if there is one.
template <class A, class T, class Op>
void check_exscan(auto& comm, findings& found, const contributions<T, Op>& data, const prefixes<T, Op>& expected,
                  std::size_t n) {
  const std::span<const T> mine = data.of(comm.rank(), n);
  found.about("exscan<", tutti::name_of<A>(), "> of ", n, " x ", tutti::type_name<T>());
  const auto check = [&](const guarded<T>& out, bool in_place) {
    if (comm.rank() > 0) {
      check_output(found, out, expected.up_to(comm.rank() - 1, n));
    } else if constexpr (tutti::identity<Op, T>::known) {
      const std::vector<T> nothing(n, tutti::identity<Op, T>::value);
      check_output(found, out, std::span<const T>(nothing));
    } else if (in_place) {
      check_input(found, out, mine);
    } else {
      found.check(out.untouched(), "rank 0's output was written, though the operation has no identity");
    }
  };
  {
    const guarded<T> in(mine);
    guarded<T> out(n, 2);
    tutti::exscan<A>(comm, in.values(), out.span(), data.operation());
    check(out, false);
    check_input(found, in, mine);
  }
  guarded<T> inout(mine, 3);
  tutti::exscan<A>(comm, inout.span(), data.operation());
  check(inout, true);
}

}  // namespace conformance
