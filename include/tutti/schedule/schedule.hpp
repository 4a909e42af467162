// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: who talks to whom, when? Schedules are pure and constexpr; they know nothing of bytes or sockets.

#include <tutti/core/place.hpp>
#include <tutti/core/step.hpp>

#include <concepts>
#include <string_view>

namespace tutti {

/// The collectives of the library, as facts code can ask for.
enum class collective : unsigned char {
  broadcast,
  scatter,
  gather,
  reduce,
  reduce_scatter,
  allgather,
  allreduce,
  alltoall,
  barrier
};

/// The collective's name as users write it.
constexpr std::string_view name_of(collective which) {
  constexpr std::string_view names[] = {"broadcast", "scatter",   "gather",   "reduce", "reduce_scatter",
                                        "allgather", "allreduce", "alltoall", "barrier"};
  return names[static_cast<unsigned char>(which)];
}

namespace detail {
struct step_archetype {
  constexpr void operator()(send) const {}
  constexpr void operator()(recv) const {}
  constexpr void operator()(combine) const {}
};
}  // namespace detail

/// A schedule answers, for a place, how many rounds there are and which steps make round k. The steps of one round run
/// concurrently: sends read the values at the start of the round. A schedule is a value (a rooted one carries its
/// root).
///
/// - `s.rounds(at)`: number of rounds at that place; places may differ, messages between two ranks match in FIFO order.
/// - `s.blocks(size)`: number of blocks that a vector is divided into among `size` ranks.
/// - `s.round(at, k, emit)`: calls `emit(send|recv|combine)` for each step of round k, `0 <= k < rounds(at)`; the same
///   steps in the same order every time it is asked. No step names its own rank as peer; no set is empty.
/// - optional, `s.shared(at, k)`: in round k every message is one block, or a run of blocks in order, of its sender's
///   vector as it is when the round begins, so that ranks may read it there; the same for all ranks, which have equally
///   many rounds. It changes nothing but speed.
/// - optional, `S::whole_vector`: true if `blocks(size)` is 1 for every size, which saves all arithmetic with blocks.
/// - `S::rank_ordered`: every result is the fold of the contributions in rank order, for any associative operation.
/// - `S::overlapping`: some round writes a block that the same round sends, so sends need a copy.
template <class S>
concept schedule = std::copyable<S> && requires(const S& s, place at, int k, detail::step_archetype emit) {
  { s.rounds(at) } -> std::same_as<int>;
  { s.blocks(k) } -> std::same_as<int>;
  s.round(at, k, emit);
  { S::rank_ordered } -> std::convertible_to<bool>;
  { S::overlapping } -> std::convertible_to<bool>;
};

/// Whether the schedule never divides the vector.
template <schedule S>
inline constexpr bool whole_vector = [] {
  if constexpr (requires { S::whole_vector; }) {
    return static_cast<bool>(S::whole_vector);
  } else {
    return false;
  }
}();

/// Whether ranks may read round k's messages from where their senders have them.
template <schedule S>
constexpr bool shared_round(const S& s, place at, int k) {
  if constexpr (requires {
                  { s.shared(at, k) } -> std::same_as<bool>;
                }) {
    return s.shared(at, k);
  } else {
    return false;
  }
}

}  // namespace tutti
