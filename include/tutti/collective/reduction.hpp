// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// What a reduction works on after `average` has been lowered to a sum: buffers of W, the operation that folds, and
/// what is left to do with the result.
template <class T, class Op>
struct lowered {
  using element = T;
  static Op fold(Op op) { return op; }
  static buffers<T> widen(const buffers<T>& memory, std::size_t, arena&) { return memory; }
  static void finish(const buffers<T>&, std::span<T>, std::size_t, int) {}
};

template <class T>
requires std::is_floating_point_v<T>
struct lowered<T, average> {
  using element = T;
  static std::plus<> fold(average) { return {}; }
  static buffers<T> widen(const buffers<T>& memory, std::size_t, arena&) { return memory; }
  static void finish(const buffers<T>&, std::span<T> result, std::size_t, int ranks) {
    const T divisor = static_cast<T>(ranks);
    for (T& value : result) value = value / divisor;
  }
};

template <class T>
requires std::is_integral_v<T>
struct lowered<T, average> {
  using element = average_accumulator_t<T>;
  static std::plus<> fold(average) { return {}; }
  static buffers<element> widen(const buffers<T>& memory, std::size_t count, arena& scratch) {
    element* const wide = scratch.take_for<element>(count);
    for (std::size_t i = 0; i < count; ++i) wide[i] = memory.in[i];
    return {.in = wide, .out = wide, .result = wanted::none};
  }
  static void finish(const buffers<element>& wide, std::span<T> result, std::size_t offset, int ranks) {
    const auto divisor = static_cast<element>(ranks);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<T>(wide.out[offset + i] / divisor);
  }
};

/// reduce, reduce_scatter, allreduce, scan and exscan. `result` is what the caller gets on this rank, `offset` where it
/// lies in the whole vector.
template <collective C, class Algorithm, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void reduction(Comm& comm, const buffers<T>& memory, std::size_t count, int root, Op op,
                                          std::span<T> result, std::size_t offset, call_site where) {
  require_operation<Op, T>();
  choose<C, Algorithm, is_commutative_v<Op, T>>(comm, count * sizeof(T), [&]<class A>() TUTTI_ALWAYS_INLINE {
    using S = schedule_for<C, A>;
    require_order<S, Op, T>();
    if constexpr (C == collective::allreduce) require_uniform<S, Op, T>();
    using lower = lowered<T, Op>;
    using W = typename lower::element;
    const S schedule = schedule_of_call<S>(comm, root, count, count * sizeof(T));
    const buffers<W> wide = lower::widen(memory, count, comm.scratch());
    run_schedule(comm, make_call<C, A, T, Op>(comm, count, root, where), schedule,
                 storage_for<W, S>(wide, count, schedule.blocks(comm.size()), comm.rank(), comm.scratch()),
                 lower::fold(std::move(op)), streams<W>(count));
    lower::finish(wide, result, offset, comm.size());
  });
}

}  // namespace tutti::detail
