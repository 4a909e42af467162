// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/lowering.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/layout.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/schedule/dissemination.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tutti {

/// Not an algorithm of this library's: the collective of the library below the transport. On `mpi` that is MPI's own
/// call, with MPI's own types and operations where it has them. Other transports have none, and it does not compile.
///
/// It takes as long as the call itself, and promises no more than it: ranks' calls are not compared, `timeout` and
/// `abort` do not end the waiting, and what has failed is told before the call and after it. If a rank fails for which
/// others wait there, the job is ended. `automatic` never takes it, since it promises all that.
struct native {
  static constexpr std::string_view name = "native";
};

namespace detail {

template <bool Used = true>
struct scratch_given_back {
  arena& scratch;
  ~scratch_given_back() {
    if constexpr (Used) scratch.reset();
  }
};

/// Every rank of the communicator is about to call the library's own collectives for the first time: who has failed
/// before has not been waited for where nothing can be heard.
template <class Comm>
[[gnu::noinline, gnu::cold]] void introduce_native(Comm& comm, call_site where) {
  using A = dissemination;
  constexpr auto verb = collective::barrier;
  const scratch_given_back<> scope{comm.scratch()};
  const schedule_for<verb, A> schedule{};
  const buffers<std::byte> memory{.result = wanted::none};
  run_schedule(comm, make_call<verb, A, std::byte, no_operation>(comm, 0, -1, where), schedule,
               whole_storage<std::byte>(memory, 0, schedule.blocks(comm.size()), comm.rank(), comm.scratch()),
               no_operation{}, false);
}

template <collective C, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline call make_native_call(Comm& comm, std::size_t count, int root, call_site where) {
  return comm.next_native_call(signature<C, native, T, Op>, count, root, where);
}

/// `f(collectives, op)` as the call, after what has to be done before.
template <collective C, class T, class Op, class Comm, class F>
[[gnu::noinline, gnu::cold]] void run_native_slowly(Comm& comm, std::size_t count, int root, Op op, call_site where,
                                                    F f) {
  comm.go_on();
  auto own = comm.transport().native_collectives();
  if (!own.introduced()) {
    introduce_native(comm, where);
    own.introduce();
  }
  try {
    own.open(make_native_call<C, T, Op>(comm, count, root, where));
    f(own, op);
  } catch (...) {
    abandon(own);
  }
}

/// `f(collectives, op)` as the call. What is done seldom is done elsewhere, with a copy of f and the call itself, so
/// that nothing need be kept for after it.
template <collective C, class T, class Op, class Comm, class F>
TUTTI_ALWAYS_INLINE inline void run_native(Comm& comm, std::size_t count, int root, Op op, call_site where, F f) {
  static_assert(native_transport<typename Comm::transport_type>,
                "tutti: native stands for a collective of the library below the transport, and this transport has "
                "none: it is for mpi");
  if constexpr (native_transport<typename Comm::transport_type>) {
    auto own = comm.transport().native_collectives();
    if (!own.calm()) [[unlikely]]
      return run_native_slowly<C, T>(comm, count, root, std::move(op), where, f);
    own.write_down(make_native_call<C, T, Op>(comm, count, root, where));
    try {
      f(own, op);
    } catch (...) {
      auto failed = comm.transport().native_collectives();  // `own` stays in registers
      abandon(failed);
    }
  }
}

template <collective C, class T, class Comm>
TUTTI_ALWAYS_INLINE inline void native_movement(Comm& comm, const buffers<T>& memory, std::size_t count,
                                                std::size_t each, int root, call_site where) {
  const auto move = [=, rank = comm.rank()](auto& own, no_operation&) TUTTI_ALWAYS_INLINE {
    const bool in_place = memory.in != nullptr && memory.in == memory.out;
    // This rank's block.
    const T* const block = memory.own_in != nullptr ? memory.own_in
                           : memory.in != nullptr   ? memory.in + each * static_cast<std::size_t>(rank)
                                                    : nullptr;
    if constexpr (C == collective::broadcast) {
      own.broadcast(memory.out, count, root);
    } else if constexpr (C == collective::scatter) {
      own.scatter(memory.in, memory.own_out, each, root);
    } else if constexpr (C == collective::gather) {
      own.gather(block, memory.out, each, root);
    } else {
      static_assert(C == collective::allgather);
      own.allgather(in_place ? nullptr : block, memory.out, each);
    }
  };
  run_native<C, T>(comm, count, root, no_operation{}, where, move);
}

/// As `lowered`: where nothing folds all contributions at once.
template <class T, class Op>
using natively_lowered =
    std::conditional_t<std::is_same_v<accumulator_t<T, Op>, T>, lowered_as_is<T, Op>, lowered_to_accumulators<T, Op>>;

template <collective C, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void native_reduction(Comm& comm, const buffers<T>& memory, std::size_t count, int root,
                                                 Op op, std::span<T> result, std::size_t offset, call_site where) {
  const auto reduce = [=, &comm](auto& own, Op& given) TUTTI_ALWAYS_INLINE {
    using lower = natively_lowered<T, Op>;
    using W = typename lower::element;
    constexpr bool takes_scratch =
        !std::is_same_v<T, W> || C == collective::reduce_scatter ||
        (C == collective::reduce && std::remove_reference_t<decltype(own)>::reduce_takes_scratch);
    const scratch_given_back<takes_scratch> scope{comm.scratch()};
    const buffers<W> wide = lower::widen(memory, count, comm.scratch());
    auto fold = lower::fold(std::move(given), comm.size());
    constexpr bool commutes = is_commutative_v<Op, T>;
    if constexpr (C == collective::allreduce) {
      own.template allreduce<commutes>(wide.in, wide.out, count, fold);
    } else if constexpr (C == collective::reduce) {
      own.template reduce<commutes>(wide.in, wide.out, count, fold, root, comm.scratch());
    } else if constexpr (C == collective::scan) {
      own.template scan<commutes>(wide.in, wide.out, count, fold);
    } else if constexpr (C == collective::exscan) {
      own.template exscan<commutes>(wide.in, wide.out, count, fold);
    } else {
      static_assert(C == collective::reduce_scatter);
      const layout blocks(count, comm.size());
      W* const to = wide.own_out != nullptr ? wide.own_out : wide.out + blocks.offset(comm.rank());
      own.template reduce_scatter<commutes>(wide.in, to, wide.own_out == nullptr ? wide.out : nullptr, blocks, fold,
                                            comm.scratch());
    }
    lower::finish(wide, result, offset, comm.size());
  };
  run_native<C, T>(comm, count, root, std::move(op), where, reduce);
}

}  // namespace detail
}  // namespace tutti
