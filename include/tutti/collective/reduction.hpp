// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/exchange_of_all.hpp>
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

/// Whether what travels is as the caller has it, and each rank folds all of its result at once.
template <collective C, class T, class Op>
inline constexpr bool folds_what_is_shown =
    (C == collective::allreduce || C == collective::reduce_scatter) && std::is_same_v<accumulator_t<T, Op>, T>;

/// What `rank` gets of a vector of so many elements.
template <collective C>
TUTTI_ALWAYS_INLINE inline std::size_t offset_of_result(std::size_t count, int rank, int size) {
  return C == collective::allreduce ? 0 : layout(count, size).offset(rank);
}

/// An allreduce or reduce_scatter that is one exchange among two ranks.
template <collective C, class Algorithm, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void exchange_reduction(Comm& comm, const buffers<T>& memory, std::size_t count, Op op,
                                                   std::span<T> result, call_site where) {
  using A = algorithm_of_two_t<C, Algorithm, Comm>;
  require_order<schedule_for<C, A>, Op, T>();
  using lower = lowered_as_is<T, Op>;
  const int rank = comm.rank();
  const T* const own = memory.in + offset_of_result<C>(count, rank, 2);
  const T* const sent = memory.in + offset_of_result<C>(count, 1 - rank, 2);
  const std::size_t n = C == collective::allreduce ? count : count - result.size();
  exchange_of_two(comm, make_call<C, A, T, Op>(comm, count, -1, where), sent, n, result.size(), sent == result.data(),
                  [&](const T* arrived) TUTTI_ALWAYS_INLINE {
                    auto fold = lower::fold(std::move(op), 2);
                    fold_pair(result.data(), rank == 0 ? own : arrived, rank == 0 ? arrived : own, result.size(), fold,
                              false);
                  });
  lower::finish(memory, result, 0, 2);
}

/// The same among all, or of more elements, or an allreduce of two exchanges.
template <collective C, class A, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void fold_what_is_shown(Comm& comm, const buffers<T>& memory, std::size_t count, Op op,
                                                   std::span<T> result, call_site where) {
  using lower = lowered_as_is<T, Op>;
  constexpr bool by_blocks = exchanges_by<C, A> == 2;
  constexpr collective first = by_blocks ? collective::reduce_scatter : C;
  const int rank = comm.rank();
  const int size = comm.size();
  const std::size_t offset = offset_of_result<first>(count, rank, size);
  const std::size_t n = by_blocks ? layout(count, size).size(rank) : result.size();
  T* const own = by_blocks ? result.data() + offset : result.data();
  run_exchanges(comm, make_call<C, A, T, Op>(comm, count, -1, where), [&](auto& exchange) TUTTI_ALWAYS_INLINE {
    exchange.template round<by_blocks ? which_round::first : which_round::only>(
        memory.in, count, 0, first == collective::allreduce && memory.in == memory.out, [=](int) { return offset; },
        [&](const T** source) TUTTI_ALWAYS_INLINE {
          auto fold = lower::fold(std::move(op), size);
          source[rank] = memory.in + offset;
          fold_all(own, static_cast<const T* const*>(source), size, n, fold, false);
        });
    if constexpr (by_blocks) {
      const layout blocks(count, size);
      exchange.template round<which_round::last>(
          static_cast<const T*>(own), n, offset, false, [&](int peer) { return blocks.offset(peer); },
          [&](const T** source) TUTTI_ALWAYS_INLINE {
            for (int of = 0; of < size; ++of)
              if (of != rank) copy_elements(result.data() + blocks.offset(of), source[of], blocks.size(of), false);
          });
    }
  });
  lower::finish(memory, result, 0, size);
}

/// An allreduce by blocks in which a rank folds its block of all vectors and writes it to all results, where they are.
/// Nobody else touches that block, in place either, and the others need not fetch it.
template <class A, class T, class Op, class Comm>
[[gnu::noinline]] void write_what_is_folded(Comm& comm, const buffers<T>& memory, std::size_t count, Op op,
                                            std::span<T> result, call_site where) {
  using lower = lowered_as_is<T, Op>;
  const int rank = comm.rank();
  const int size = comm.size();
  const layout blocks(count, size);
  const std::size_t offset = blocks.offset(rank);
  const auto own_block = [=](int) { return offset; };
  run_exchanges(comm, make_call<collective::allreduce, A, T, Op>(comm, count, -1, where), [&](auto& exchange) {
    const T* in[most_exchanging];
    exchange.template round<which_round::first>(memory.in, count, 0, false, own_block, [&](const T** source) {
      for (int of = 0; of < size; ++of) in[of] = of == rank ? memory.in + offset : source[of];
    });
    exchange.write_to_all(result.data(), count, own_block, [&](T** out) {
      out[rank] = result.data() + offset;
      auto fold = lower::fold(std::move(op), size);
      // Past the caches as if there were two, also among more: measured among 8 and 16.
      fold_to_each<most_exchanging>(static_cast<T* const*>(out), static_cast<const T* const*>(in), size, rank,
                                    blocks.size(rank), fold, count * sizeof(T) >= streaming_bytes(2));
    });
  });
  lower::finish(memory, result, 0, size);
}

/// A reduce in which all show the root their vector.
template <class A, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void reduce_what_is_shown(Comm& comm, const buffers<T>& memory, std::size_t count, int root,
                                                     Op op, std::span<T> result, call_site where) {
  using lower = lowered_as_is<T, Op>;
  const int rank = comm.rank();
  const int size = comm.size();
  run_exchanges(comm, make_call<collective::reduce, A, T, Op>(comm, count, root, where),
                [&](auto& exchange) TUTTI_ALWAYS_INLINE {
                  if (rank != root) return exchange.send_to_root(root, memory.in, count, 0);
                  exchange.template take_from_all<T>(
                      count, [](int) { return std::size_t{0}; },
                      [&](const T** source) TUTTI_ALWAYS_INLINE {
                        auto fold = lower::fold(std::move(op), size);
                        source[rank] = memory.in;
                        fold_all(memory.out, static_cast<const T* const*>(source), size, count, fold, false);
                      });
                });
  lower::finish(memory, result, 0, size);
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
    if constexpr (folds_what_is_shown<C, T, Op>) {
      if constexpr (may_exchange<C, Algorithm, T, Comm>())
        if (comm.size() == 2 && count * sizeof(T) <= most_exchanged_bytes)
          return exchange_reduction<C, Algorithm>(comm, memory, count, std::move(op), result, where);
    }
    choose<C, Algorithm, is_commutative_v<Op, T>>(comm, bytes_of<T, Op>(count), [&]<class A>() TUTTI_ALWAYS_INLINE {
      using S = schedule_for<C, A>;
      require_order<S, Op, T>();
      if constexpr (folds_what_is_shown<C, T, Op>) {
        constexpr int exchanges = exchanges_among_all<C, A, T, Comm>();
        if constexpr (exchanges == 2 && opening_lane<typename Comm::lane_type>)
          if (are_folded_in_place<C, A>(comm, count * sizeof(T)))
            return write_what_is_folded<A>(comm, memory, count, std::move(op), result, where);
        if constexpr (exchanges > 0)
          if (are_shown<C, A>(comm, count * sizeof(T),
                              C == collective::allreduce && exchanges == 1 && memory.in == memory.out))
            return fold_what_is_shown<C, A>(comm, memory, count, std::move(op), result, where);
      }
      if constexpr (C == collective::reduce && std::is_same_v<accumulator_t<T, Op>, T>) {
        if constexpr (may_be_star<C, A, T, Comm>())
          if (are_shown<C, A>(comm, count * sizeof(T)))
            return reduce_what_is_shown<A>(comm, memory, count, root, std::move(op), result, where);
      }
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
