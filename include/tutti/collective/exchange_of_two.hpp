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

/// Whether round k of the schedule is an exchange: each rank sends all others what the collective has them get, in one
/// message, and takes in what they send, folded in rank order where the collective folds.
template <collective C, schedule S>
constexpr bool is_exchange(const S& schedule, int size, int k) {
  constexpr bool reduces = C == collective::allreduce || C == collective::reduce_scatter;
  bool is = C == collective::barrier || schedule.blocks(size) == (C == collective::allreduce ? 1 : size);
  for (int rank = 0; rank < size; ++rank) {
    const place at{rank, size};
    // A block has the number of its owner: of who has it, or of who folds it.
    const auto fits = [&](const block_set& what, int from, int to) {
      if constexpr (C == collective::barrier) {
        return true;
      } else if constexpr (C == collective::alltoall) {
        const int slot = what.at(0, size);
        return what.count == 1 && schedule.destination({from, size}, slot) == to &&
               schedule.source({to, size}, slot) == from;
      } else {
        return what == one_block(C == collective::allreduce ? 0 : C == collective::allgather ? from : to);
      }
    };
    int sends = 0;
    int arrivals = 0;
    int last = -1;
    schedule.round(at, k, [&]<class Step>(const Step& step) {
      if constexpr (is_send<Step>) {
        ++sends;
        is = is && fits(step.what, rank, step.peer);
      } else if constexpr (is_recv<Step>) {
        ++arrivals;
        is = is && !reduces && fits(step.what, step.peer, rank);
      } else if constexpr (is_combine<Step>) {
        ++arrivals;
        is = is && reduces && fits(step.what, step.peer, rank) && step.peer > last &&
             step.operand == (step.peer < rank ? side::left : side::right);
        last = step.peer;
      } else {
        is = false;
      }
    });
    is = is && sends == size - 1 && arrivals == size - 1;
  }
  return is;
}

/// Whether that is all the schedule does among two ranks.
template <collective C, schedule S>
constexpr bool is_exchange_of_two() {
  if constexpr (vectors<S> != 1 || segmented<S> || rooted<S>) {
    return false;
  } else {
    const S schedule{};
    return schedule.rounds({0, 2}) == 1 && schedule.rounds({1, 2}) == 1 && is_exchange<C>(schedule, 2, 0);
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
  constexpr std::size_t always_copied = Comm::transport_type::exchange_copy_bytes;
  const std::size_t bytes = n * sizeof(T);
  // The lane copies more than that only where it has room: it may have to send it later.
  const bool apart = overwritten && bytes > always_copied;
  if (apart) [[unlikely]]
    data = copied_apart(comm.scratch(), data, n);
  auto& lane = comm.lane();
  const int peer = 1 - comm.rank();
  try {
    lane.open(c);
    lane.begin_round();
    // To wait until the other has read it costs a turn of it where both share a processor.
    lane.send(peer, reinterpret_cast<const std::byte*>(data), bytes, bytes <= always_copied || lane.crowded());
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
