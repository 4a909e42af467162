// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/collective/call.hpp>
#include <tutti/collective/select.hpp>
#include <tutti/core/arena.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/core/wait.hpp>
#include <tutti/schedule/schedule.hpp>

#include <cstddef>
#include <type_traits>

// Among two ranks small collectives are one exchange of messages: each sends what the other has to get, and takes in
// what comes. Where the schedule is no more than that, it is done here and not by the executor: the most time goes to
// the processor's instructions then if the two ranks share a core, and there are half as many.

namespace tutti::detail {

/// Whether that is what the schedule does in each of two ranks: it sends its vector, or the block that is told, in one
/// message, and takes in one, which is folded in rank order where the collective folds.
template <collective C, schedule S>
constexpr bool is_exchange_of_two() {
  constexpr bool reduces = C == collective::allreduce || C == collective::reduce_scatter;
  if constexpr (vectors<S> != 1 || segmented<S> || rooted<S>) {
    return false;
  } else {
    const S schedule{};
    bool is = schedule.blocks(2) == (C == collective::allreduce ? 1 : 2) || C == collective::barrier;
    for (int rank = 0; rank < 2; ++rank) {
      const place at{rank, 2};
      if (schedule.rounds(at) != 1) return false;
      const int sent = C == collective::allgather ? rank : C == collective::reduce_scatter ? 1 - rank : 0;
      const int taken = C == collective::allgather ? 1 - rank : C == collective::reduce_scatter ? rank : 0;
      constexpr int slot = C == collective::alltoall ? 1 : 0;  // the other's, in the one and the other way
      if constexpr (C == collective::alltoall)
        is = is && schedule.destination(at, slot) == 1 - rank && schedule.source(at, slot) == 1 - rank;
      int sends = 0;
      int arrivals = 0;
      const auto fits = [&](const block_set& what, int block) {
        return C == collective::barrier || what == one_block(block + slot);
      };
      schedule.round(at, 0, [&]<class Step>(const Step& step) {
        if constexpr (is_send<Step>) {
          ++sends;
          is = is && fits(step.what, sent);
        } else if constexpr (is_recv<Step>) {
          ++arrivals;
          is = is && !reduces && fits(step.what, taken);
        } else if constexpr (is_combine<Step>) {
          ++arrivals;
          is = is && reduces && fits(step.what, taken) && step.operand == (rank == 0 ? side::right : side::left);
        } else {
          is = false;
        }
      });
      is = is && sends == 1 && arrivals == 1;
    }
    return is;
  }
}

template <class First, class... Rest>
First first_of(algorithm_list<First, Rest...>);

/// The algorithm that the caller named, or the first candidate: the one for the fewest bytes.
template <collective C, class Algorithm, class Comm, bool Choice = is_choice<Algorithm>>
struct algorithm_of_two {
  using type = Algorithm;
};
template <collective C, class Algorithm, class Comm>
struct algorithm_of_two<C, Algorithm, Comm, true> {
  using type = decltype(first_of(candidates_on<Algorithm, C, Comm>{}));
};
template <collective C, class Algorithm, class Comm>
using algorithm_of_two_t = typename algorithm_of_two<C, Algorithm, Comm>::type;

/// What can be asked of the schedule while the program is compiled, and so what is found out here.
template <collective C, class S>
concept says_before_whether_two_exchange = requires {
  typename std::bool_constant<(static_cast<void>(is_exchange_of_two<C, S>()), true)>;
};

/// Whether the collective is one exchange among two ranks, if its bytes are few.
template <collective C, class Algorithm, class T, class Comm>
constexpr bool may_exchange() {
  using A = algorithm_of_two_t<C, Algorithm, Comm>;
  using L = typename Comm::lane_type;
  if constexpr (sharing_lane<L> && viewing_lane<L> && !hosted_transport<typename Comm::transport_type> &&
                alignof(T) <= 32 && implements<A, C>) {
    if constexpr (supports<A>(place{0, 2}) && says_before_whether_two_exchange<C, schedule_for<C, A>>)
      return is_exchange_of_two<C, schedule_for<C, A>>() && admits<Algorithm, C, A>(place{0, 2});
  }
  return false;
}

/// The most bytes of the whole vector: with more it makes no difference.
inline constexpr std::size_t most_exchanged_bytes = 1024;

template <class T>
[[gnu::noinline, gnu::cold]] const T* copied_apart(arena& scratch, const T* data, std::size_t n) {
  T* const copy = scratch.take_for<T>(n);
  copy_elements(copy, data, n, false);
  return copy;
}

/// Sends n elements, and calls `take(from)` when the other's `arriving` elements have come. What is `overwritten` by
/// that is copied before; the rest must stay as it is until this returns.
template <class T, class Comm, class Take>
TUTTI_ALWAYS_INLINE inline void exchange_of_two(Comm& comm, const call& c, const T* data, std::size_t n,
                                                std::size_t arriving, bool overwritten, Take&& take) {
  constexpr std::size_t most_copied = Comm::transport_type::exchange_copy_bytes;
  const std::size_t bytes = n * sizeof(T);
  // The lane copies more than that only where it has room: it may have to send it later.
  const bool apart = overwritten && bytes > most_copied;
  if (apart) [[unlikely]]
    data = copied_apart(comm.scratch(), data, n);
  auto& lane = comm.lane();
  const int peer = 1 - comm.rank();
  try {
    lane.open(c);
    lane.begin_round();
    lane.send(peer, reinterpret_cast<const std::byte*>(data), bytes, bytes <= most_copied);
    // Who looks at once takes away the line that the other is about to write.
    cpu_pause();
    waiting<Comm> wait{comm, lane};
    const std::byte* from;
    while ((from = lane.view(peer, arriving * sizeof(T))) == nullptr) wait();
    lane.claim(peer);
    take(reinterpret_cast<const T*>(from));
    lane.release(peer);
    while (!lane.settled()) wait();
    if (wait.waited) lane.awake();
    if (apart) [[unlikely]]
      comm.scratch().reset();
  } catch (...) {
    abandon(lane);
  }
}

}  // namespace tutti::detail
