// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <type_traits>

namespace tutti::detail {

/// broadcast, scatter, gather and allgather: blocks of a vector move and nothing is folded. `each` of the `count`
/// elements are a rank's block, where the ranks have blocks.
template <collective C, class Algorithm, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void movement(Comm& comm, const buffers<T>& memory, std::size_t count, std::size_t each,
                                         int root, call_site where) {
  if constexpr (std::is_same_v<Algorithm, native>) {
    native_movement<C, T>(comm, memory, count, each, root, where);
  } else {
    choose<C, Algorithm, true>(comm, count * sizeof(T), [&]<class A>() TUTTI_ALWAYS_INLINE {
      using S = schedule_for<C, A>;
      const S schedule = schedule_of_call<S>(comm, root, count, count * sizeof(T));
      run_schedule(comm, make_call<C, A, T, no_operation>(comm, count, root, where), schedule,
                   storage_for<T, S>(memory, count, blocks_of(schedule, comm.place()), comm.rank(), comm.scratch()),
                   no_operation{}, streams<T>(count, comm.size()));
    });
  }
}

}  // namespace tutti::detail
