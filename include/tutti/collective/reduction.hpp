// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/collective/lowering.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/accumulator.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

template <collective C, class Algorithm, class T, class Op, class Comm>
constexpr bool may_exchange_reduction() {
  constexpr bool exchanges = C == collective::allreduce || C == collective::reduce_scatter;
  if constexpr (exchanges && std::is_same_v<accumulator_t<T, Op>, T>) {
    return may_exchange<C, Algorithm, T, Comm>();
  } else {
    return false;
  }
}

/// Whether so few elements are exchanged that this rank does it without the executor. Of an allreduce each rank decides
/// for itself, since the messages are the same.
template <collective C, class Comm, class T>
TUTTI_ALWAYS_INLINE inline bool are_exchanged(const buffers<T>& memory, std::size_t count) {
  if constexpr (C == collective::allreduce) {
    // In place what is not copied at once would be overwritten.
    constexpr std::size_t copied = Comm::transport_type::exchange_copy_bytes;
    return count * sizeof(T) <= (memory.in == memory.out ? copied : most_exchanged_bytes);
  } else {
    return (count + 1) / 2 * sizeof(T) <= most_exchanged_bytes;
  }
}

/// An allreduce or reduce_scatter of two ranks.
template <collective C, class Algorithm, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void exchange_reduction(Comm& comm, const buffers<T>& memory, std::size_t count, Op op,
                                                   std::span<T> result, call_site where) {
  using A = algorithm_of_two_t<C, Algorithm, Comm>;
  using S = schedule_for<C, A>;
  require_order<S, Op, T>();
  using lower = lowered_as_is<T, Op>;
  const int rank = comm.rank();
  const T* sent = memory.in;
  const T* own = memory.in;
  std::size_t n = count;
  if constexpr (C == collective::reduce_scatter) {
    const layout blocks(count, 2);
    sent += blocks.offset(1 - rank);
    own += blocks.offset(rank);
    n = blocks.size(1 - rank);
  }
  exchange_of_two(comm, make_call<C, A, T, Op>(comm, count, -1, where), sent, n, result.size(),
                  [&](const T* arrived) TUTTI_ALWAYS_INLINE {
                    auto fold = lower::fold(std::move(op), 2);
                    fold_pair(result.data(), rank == 0 ? own : arrived, rank == 0 ? arrived : own, result.size(), fold,
                              false);
                  });
  lower::finish(memory, result, 0, 2);
}

/// reduce, reduce_scatter, allreduce, scan and exscan. `result` is what the caller gets on this rank, `offset` where it
/// lies in the whole vector.
template <collective C, class Algorithm, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void reduction(Comm& comm, const buffers<T>& memory, std::size_t count, int root, Op op,
                                          std::span<T> result, std::size_t offset, call_site where) {
  require_operation<Op, T>();
  if constexpr (std::is_same_v<Algorithm, native>) {
    native_reduction<C>(comm, memory, count, root, std::move(op), result, offset, where);
  } else {
    if constexpr (may_exchange_reduction<C, Algorithm, T, Op, Comm>()) {
      if (comm.size() == 2 && are_exchanged<C, Comm>(memory, count))
        return exchange_reduction<C, Algorithm>(comm, memory, count, std::move(op), result, where);
    }
    choose<C, Algorithm, is_commutative_v<Op, T>>(comm, bytes_of<T, Op>(count), [&]<class A>() TUTTI_ALWAYS_INLINE {
      using S = schedule_for<C, A>;
      require_order<S, Op, T>();
      if constexpr (C == collective::allreduce) require_uniform<S, Op, T>();
      using lower = lowered<T, Op, S>;
      using W = typename lower::element;
      const S schedule = schedule_of_call<S>(comm, root, count, count * sizeof(W));
      const buffers<W> wide = lower::widen(memory, count, comm.scratch());
      run_schedule(comm, make_call<C, A, T, Op>(comm, count, root, where), schedule,
                   storage_for<W, S>(wide, count, blocks_of(schedule, comm.place()), comm.rank(), comm.scratch()),
                   lower::fold(std::move(op), comm.size()), streams<W>(count, comm.size()));
      lower::finish(wide, result, offset, comm.size());
    });
  }
}

}  // namespace tutti::detail
