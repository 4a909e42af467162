// SPDX-License-Identifier: BSL-1.0
#pragma once

// This room answers: who talks to whom, when? Schedules are pure and constexpr; they know nothing of bytes or sockets.

#include <tutti/core/place.hpp>
#include <tutti/core/step.hpp>
#include <tutti/core/value.hpp>

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
  barrier,
  scan,
  exscan
};

/// How many collectives there are.
inline constexpr int collective_count = static_cast<int>(collective::exscan) + 1;

/// The collective's name as users write it.
constexpr std::string_view name_of(collective which) {
  constexpr std::string_view names[] = {"broadcast", "scatter",  "gather",  "reduce", "reduce_scatter", "allgather",
                                        "allreduce", "alltoall", "barrier", "scan",   "exscan"};
  return names[static_cast<unsigned char>(which)];
}

/// How often a schedule folds a block on its way to a result.
enum class folds : unsigned char {
  nothing,     ///< never: it only moves blocks
  at_once,     ///< the contributions of all ranks, as they are, in the first round, in one group; later it only moves
  repeatedly,  ///< partial results are sent and folded again, or may be
};

namespace detail {
struct step_archetype {
  constexpr void operator()(send_to) const {}
  constexpr void operator()(recv_from) const {}
  constexpr void operator()(combine) const {}
  constexpr void operator()(reduce_local) const {}
};
}  // namespace detail

/// A schedule answers, for a place, how many rounds there are and which steps make round k. The steps of one round run
/// concurrently: sends read the values at the start of the round. A schedule is a value (a rooted one carries its
/// root).
///
/// - `s.rounds(at)`: number of rounds at that place; places may differ, messages between two ranks match in FIFO order.
/// - `s.blocks(size)`: number of blocks that a vector is divided into among `size` ranks.
/// - optional, `s.blocks(at)`: the same where it depends on which ranks share a host; equal on all ranks.
/// - `s.round(at, k, emit)`: calls `emit(send|recv|combine|reduce_local)` for each step of round k,
///   `0 <= k < rounds(at)`; the same steps in the same order every time it is asked. No step names its own rank as
///   peer; no set is empty. Sends that follow each other to the same peer, and so arrivals from it, are one message
///   made of several sets.
/// - optional, `s.shared(at, k)`: in round k every message is one block, or a run of blocks in order, of its sender's
///   vector as it is when the round begins, so that ranks may read it there; the same for all ranks, which have equally
///   many rounds. It changes nothing but speed.
/// - optional, `s.next_round(at, k)`: the first round from k on, or `rounds(at)`, in which that place has a step, and
///   `s.previous_round(at, k)`: the last one up to k, or -1: for those who follow a million ranks through rounds in
///   which few of them have anything to do.
/// - optional, a member `int segments`: the schedule pipelines its vector in so many blocks, 1 unless it is made with
///   more, and its number of rounds grows by the same for each; all ranks have equally many rounds.
/// - optional, `S::vectors`: a rank works on so many vectors, all divided into the same blocks; number 0 begins as the
///   caller's input, the others begin with nothing. Then no set of blocks wraps around. `S::result` is the number of
///   the vector that ends as the result, 0 unless it is given.
/// - optional, `S::whole_vector`: true if `blocks(size)` is 1 for every size; where there is a root that saves all
///   arithmetic with blocks.
/// - optional, `S::folding`: a `folds`; `repeatedly` if it is not said. `folds_as_it_says` checks it.
/// - `S::rank_ordered`: every result is the fold of the contributions in rank order, for any associative operation.
/// - optional, `S::rank_ordered_at({root, size, hosts})`: where that holds for some roots, sizes and hosts only,
/// whether
///   for these.
/// - optional, `S::uniform`: false if ranks of an allreduce fold in different ways, so that only an operation that
///   rounds nothing gives the same on all of them; true unless it is given.
/// - optional, `S::canonical(size)`: whether results are folded along the canonical tree: the one whose leaves are the
///   ranks, in which neighbouring aligned groups of 2^k ranks meet in one fold, cut off at `size`.
/// - `S::overlapping`: some round writes a block that the same round sends, so sends need a copy.
template <class S>
concept schedule = detail::value<S> && requires(const S& s, place at, int k, detail::step_archetype emit) {
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

/// How often the schedule folds.
template <schedule S>
inline constexpr folds folding = [] {
  if constexpr (requires { S::folding; }) {
    return S::folding;
  } else {
    return folds::repeatedly;
  }
}();

/// How many vectors a rank works on, and which of them is the result.
template <schedule S>
inline constexpr int vectors = [] {
  if constexpr (requires { S::vectors; }) {
    return static_cast<int>(S::vectors);
  } else {
    return 1;
  }
}();
template <schedule S>
inline constexpr int result_vector = [] {
  if constexpr (requires { S::result; }) {
    return static_cast<int>(S::result);
  } else {
    return 0;
  }
}();

/// Whether all ranks of an allreduce fold in the same way, so that they get the same bits.
template <schedule S>
inline constexpr bool uniform = [] {
  if constexpr (requires { S::uniform; }) {
    return static_cast<bool>(S::uniform);
  } else {
    return true;
  }
}();

/// Whether the schedule folds along the canonical tree among `size` ranks.
template <schedule S>
constexpr bool canonical(int size) {
  if constexpr (requires { S::canonical(size); }) {
    return S::canonical(size);
  } else {
    return false;
  }
}

/// Whether every result among `at.size` ranks, at the root `at.rank` if there is one, is folded in rank order.
template <schedule S>
constexpr bool rank_ordered(place at) {
  if constexpr (requires { S::rank_ordered_at(at); }) {
    return S::rank_ordered || S::rank_ordered_at(at);
  } else {
    return S::rank_ordered;
  }
}

/// A schedule that pipelines its vector in segments, made by `S{segments}` or `S{root, segments}`.
template <class S>
concept segmented = schedule<S> && requires(const S& s) {
  { s.segments } -> std::convertible_to<int>;
};

/// A schedule that has a root: an aggregate of it, made by `S{root}` or `S{root, segments}`.
template <class S>
concept rooted = requires(const S& s) {
  { s.root } -> std::convertible_to<int>;
};

namespace detail {
/// The schedule `S`, made with the root if it has one and the number of segments if it has that.
template <schedule S>
constexpr S make_schedule(int root, int segments = 1) {
  if constexpr (rooted<S> && segmented<S>) {
    return S{root, segments};
  } else if constexpr (rooted<S>) {
    return S{root};
  } else if constexpr (segmented<S>) {
    return S{segments};
  } else {
    return S{};
  }
}
}  // namespace detail

/// The number of blocks that a vector is divided into.
template <schedule S>
constexpr int blocks_of(const S& s, place at) {
  if constexpr (requires {
                  { s.blocks(at) } -> std::same_as<int>;
                }) {
    return s.blocks(at);
  } else {
    return s.blocks(at.size);
  }
}

/// The first round from k on in which that place may have a step, or `rounds(at)`.
template <schedule S>
constexpr int next_round(const S& s, place at, int k) {
  if constexpr (requires { s.next_round(at, k); }) {
    return s.next_round(at, k);
  } else {
    return k;
  }
}

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
