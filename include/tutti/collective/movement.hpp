// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_all.hpp>
#include <tutti/collective/exchange_of_two.hpp>
#include <tutti/collective/native.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>

#include <cstddef>
#include <type_traits>

namespace tutti::detail {

/// An allgather of two ranks, of `each` elements of either.
template <class Algorithm, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void exchange_blocks(Comm& comm, const buffers<T>& memory, std::size_t each,
                                                call_site where) {
  constexpr auto verb = collective::allgather;
  using A = algorithm_of_two_t<verb, Algorithm, Comm>;
  const int rank = comm.rank();
  T* const own = memory.out + each * static_cast<std::size_t>(rank);
  T* const other = memory.out + each * static_cast<std::size_t>(1 - rank);
  const T* const sent = memory.own_in != nullptr ? memory.own_in : own;
  exchange_of_two(comm, make_call<verb, A, T, no_operation>(comm, 2 * each, -1, where), sent, each, each, false,
                  [&](const T* arrived) TUTTI_ALWAYS_INLINE {
                    copy_elements(own, sent, each, false);
                    copy_elements(other, arrived, each, false);
                  });
}

/// The same among all, or of more elements.
template <class A, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void take_shown_blocks(Comm& comm, const buffers<T>& memory, std::size_t each,
                                                  call_site where) {
  constexpr auto verb = collective::allgather;
  const int rank = comm.rank();
  const auto place_of = [=](int of) { return each * static_cast<std::size_t>(of); };
  T* const own = memory.out + place_of(rank);
  const T* const sent = memory.own_in != nullptr ? memory.own_in : own;
  run_exchanges(comm, make_call<verb, A, T, no_operation>(comm, place_of(comm.size()), -1, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  exchange.round(sent, each, place_of(rank), false, place_of,
                                 [&](const T** source) TUTTI_ALWAYS_INLINE {
                                   source[rank] = sent;
                                   copy_one_after_the_other(memory.out, source, each, comm.size());
                                 });
                });
}

/// A gather in which all show the root their block.
template <class A, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void gather_what_is_shown(Comm& comm, const buffers<T>& memory, std::size_t each, int root,
                                                     call_site where) {
  constexpr auto verb = collective::gather;
  const int rank = comm.rank();
  const auto place_of = [=](int of) { return each * static_cast<std::size_t>(of); };
  const T* const sent = memory.own_in != nullptr ? memory.own_in : memory.in + place_of(rank);
  run_exchanges(comm, make_call<verb, A, T, no_operation>(comm, place_of(comm.size()), root, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  if (rank != root) return exchange.send_to_root(root, sent, each, place_of(rank));
                  exchange.template take_from_all<T>(each, place_of, [&](const T** source) TUTTI_ALWAYS_INLINE {
                    source[rank] = sent;
                    copy_one_after_the_other(memory.out, source, each, comm.size());
                  });
                });
}

/// A gather in which the root shows where it wants the blocks, and each writes its own there: all at once, where the
/// root alone would copy one after the other.
template <class A, class T, class Comm>
[[gnu::noinline]] void gather_what_is_written(Comm& comm, const buffers<T>& memory, std::size_t each, int root,
                                              call_site where) {
  constexpr auto verb = collective::gather;
  const int rank = comm.rank();
  const std::size_t count = each * static_cast<std::size_t>(comm.size());
  const std::size_t own = each * static_cast<std::size_t>(rank);
  const T* const sent = memory.own_in != nullptr ? memory.own_in : memory.in + own;
  const auto write = [&](T* to) TUTTI_ALWAYS_INLINE { copy_elements(to, sent, each, streams<T>(count, comm.size())); };
  run_exchanges(comm, make_call<verb, A, T, no_operation>(comm, count, root, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  if (rank != root) return exchange.write_to_root(root, sent, count, own, write);
                  exchange.have_all_write(memory.out, count, [&] { write(memory.out + own); });
                });
}

/// A broadcast or scatter in which the root shows its vector, or its block to the only one who wants one.
template <collective C, class A, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void take_what_the_root_shows(Comm& comm, const buffers<T>& memory, std::size_t count,
                                                         std::size_t each, int root, call_site where) {
  const int rank = comm.rank();
  const std::size_t offset = C == collective::scatter ? each * static_cast<std::size_t>(rank) : 0;
  const bool one_block_shown = C == collective::scatter && comm.size() == 2;
  const std::size_t shown = one_block_shown ? each : count;
  const std::size_t first = one_block_shown && root == 0 ? each : 0;
  run_exchanges(comm, make_call<C, A, T, no_operation>(comm, count, root, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  if (rank == root) {
                    exchange.send_to_all(memory.in + first, shown, first);
                    if constexpr (C == collective::scatter)
                      copy_elements(memory.own_out, memory.in + offset, each, false);
                  } else {
                    T* const to = C == collective::scatter ? memory.own_out : memory.out;
                    exchange.template take_from_root<T>(root, shown, offset, [&](const T* from) TUTTI_ALWAYS_INLINE {
                      copy_elements(to, from, C == collective::scatter ? each : count, false);
                    });
                  }
                });
}

/// broadcast, scatter, gather and allgather: blocks of a vector move and nothing is folded. `each` of the `count`
/// elements are a rank's block, where the ranks have blocks.
template <collective C, class Algorithm, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void movement(Comm& comm, const buffers<T>& memory, std::size_t count, std::size_t each,
                                         int root, call_site where) {
  if constexpr (std::is_same_v<Algorithm, native>) {
    native_movement<C, T>(comm, memory, count, each, root, where);
  } else {
    if constexpr (C == collective::allgather) {
      if constexpr (may_exchange<C, Algorithm, T, Comm>())
        if (comm.size() == 2 && count * sizeof(T) <= most_exchanged_bytes)
          return exchange_blocks<Algorithm>(comm, memory, each, where);
    }
    choose<C, Algorithm, true>(comm, count * sizeof(T), [&]<class A>() TUTTI_ALWAYS_INLINE {
      using S = schedule_for<C, A>;
      if constexpr (C == collective::allgather) {
        if constexpr (exchanges_among_all<C, A, T, Comm>() > 0)
          if (are_shown<C, A>(comm, count * sizeof(T))) return take_shown_blocks<A>(comm, memory, each, where);
      }
      if constexpr (C != collective::allgather) {
        if constexpr (may_be_star<C, A, T, Comm>()) {
          if constexpr (C == collective::gather && opening_lane<typename Comm::lane_type>)
            if (are_written<C, A>(comm, each * sizeof(T)))
              return gather_what_is_written<A>(comm, memory, each, root, where);
          if (are_shown<C, A>(comm, count * sizeof(T))) {
            if constexpr (C == collective::gather)
              return gather_what_is_shown<A>(comm, memory, each, root, where);
            else
              return take_what_the_root_shows<C, A>(comm, memory, count, each, root, where);
          }
        }
      }
      const S schedule = schedule_of_call<S>(comm, root, count, count * sizeof(T));
      run_schedule(comm, make_call<C, A, T, no_operation>(comm, count, root, where), schedule,
                   storage_for<T, S>(memory, count, blocks_of(schedule, comm.place()), comm.rank(), comm.scratch()),
                   no_operation{}, streams<T>(count, comm.size()));
    });
  }
}

}  // namespace tutti::detail
