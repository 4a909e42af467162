// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/collective/lowering.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// reduce, reduce_scatter, allreduce, scan and exscan. `result` is what the caller gets on this rank, `offset` where it
/// lies in the whole vector.
template <collective C, class Algorithm, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void reduction(Comm& comm, const buffers<T>& memory, std::size_t count, int root, Op op,
                                          std::span<T> result, std::size_t offset, call_site where) {
  require_operation<Op, T>();
  if constexpr (std::is_same_v<Algorithm, native>) {
    native_reduction<C>(comm, memory, count, root, std::move(op), result, offset, where);
  } else {
    if constexpr (C == collective::allreduce) {
      if constexpr (may_exchange<Algorithm, T, Op, Comm>()) {
        // In place only what is copied at once.
        const std::size_t most =
            (memory.in == memory.out ? Comm::transport_type::exchange_copy_bytes : most_exchanged_bytes);
        if (comm.size() == 2 && count * sizeof(T) <= most)
          return exchange_of_two<typename algorithm_of_two<Algorithm, Comm>::type>(comm, memory, count, std::move(op),
                                                                                   result, where);
      }
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
