// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/lowering.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/collective/storage.hpp>
#include <tutti/core/accumulator.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/schedule/schedule.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace tutti::detail {

/// Whether the schedule is a single exchange where there are two ranks: each sends its whole vector, and folds in the
/// other's in rank order.
template <schedule S>
constexpr bool is_exchange_of_two() {
  if constexpr (!whole_vector<S> || vectors<S> != 1 || segmented<S> || rooted<S>) {
    return false;
  } else {
    constexpr S schedule{};
    bool is = true;
    for (int rank = 0; rank < 2; ++rank) {
      const place at{rank, 2};
      int sends = 0;
      int folds = 0;
      if (schedule.rounds(at) != 1) return false;
      schedule.round(at, 0, [&]<class Step>(const Step& step) {
        if constexpr (is_send<Step>) {
          ++sends;
        } else if constexpr (is_combine<Step>) {
          ++folds;
          is = is && step.operand == (rank == 0 ? side::right : side::left);
        } else {
          is = false;
        }
      });
      is = is && sends == 1 && folds == 1;
    }
    return is;
  }
}

template <class First, class... Rest>
First first_of(algorithm_list<First, Rest...>);

/// The algorithm that an allreduce of few bytes among two ranks takes, or would take if it were one.
template <class Algorithm, class Comm, bool Choice = is_choice<Algorithm>>
struct algorithm_of_two {
  using type = Algorithm;
};
template <class Algorithm, class Comm>
struct algorithm_of_two<Algorithm, Comm, true> {
  using type = decltype(first_of(candidates_on<Algorithm, collective::allreduce, Comm>{}));
};

/// Whether such a call is an exchange that need not go through the executor.
template <class Algorithm, class T, class Op, class Comm>
constexpr bool may_exchange() {
  using A = typename algorithm_of_two<Algorithm, Comm>::type;
  if constexpr (!sharing_lane<typename Comm::lane_type> || hosted_transport<typename Comm::transport_type> ||
                !std::is_same_v<accumulator_t<T, Op>, T> || alignof(T) > 32 || !implements<A, collective::allreduce>) {
    return false;
  } else {
    using S = schedule_for<collective::allreduce, A>;
    return is_exchange_of_two<S>() && admits<Algorithm, collective::allreduce, A>(place{0, 2});
  }
}

/// More is not worth it.
inline constexpr std::size_t most_exchanged_bytes = 1024;

/// An allreduce of two ranks that is one exchange, as the executor would do it: most of its time goes to the
/// processor's instructions where the two ranks share a core, and there are half as many here.
template <class A, class T, class Op, class Comm>
TUTTI_ALWAYS_INLINE inline void exchange_of_two(Comm& comm, const buffers<T>& memory, std::size_t n, Op op,
                                                std::span<T> result, call_site where) {
  using S = schedule_for<collective::allreduce, A>;
  using lower = lowered<T, Op, S>;
  auto& lane = comm.lane();
  const int rank = comm.rank();
  const std::size_t bytes = n * sizeof(T);
  try {
    lane.open(make_call<collective::allreduce, A, T, Op>(comm, n, -1, where));
    lane.begin_round();
    lane.send(1 - rank, reinterpret_cast<const std::byte*>(memory.in), bytes,
              bytes <= Comm::transport_type::exchange_copy_bytes);
    // Who looks at once takes the line away from the other, who is about to write it.
    cpu_pause();
    waiting<Comm> wait{comm, lane};
    const std::byte* view;
    while ((view = lane.view(1 - rank, bytes)) == nullptr) wait();
    lane.claim(1 - rank);
    const T* const arrived = reinterpret_cast<const T*>(view);
    auto fold = lower::fold(std::move(op), 2);
    fold_pair(memory.out, rank == 0 ? memory.in : arrived, rank == 0 ? arrived : memory.in, n, fold, false);
    lane.release(1 - rank);
    while (!lane.settled()) wait();
    if (wait.waited) lane.awake();
  } catch (...) {
    abandon(lane);
  }
  lower::finish(memory, result, 0, 2);
}

}  // namespace tutti::detail
