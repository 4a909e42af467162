// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/schedule/schedule.hpp>

namespace tutti {

/// A message as the cost and the simulation of a schedule see it: at one end, without its blocks.
struct message_end {
  int peer;          ///< the rank at the other end; the rank itself where it folds blocks of its own, without a message
  bool sent;         ///< or received
  long long size;    ///< of all its blocks
  long long folded;  ///< of those that are folded in here
};

namespace detail {

template <class Step>
constexpr message_end end_of(const Step& step, int rank, long long size) {
  if constexpr (is_local<Step>) {
    return {rank, false, 0, size};
  } else {
    return {step.peer, is_send<Step>, size, is_combine<Step> ? size : 0};
  }
}

}  // namespace detail

/// Calls `visit(message_end)` for the messages of a rank in round k, in listed order. Consecutive steps to the same
/// peer in the same direction make one message. `measure(block_set)` says how large a set is: in blocks or bytes.
template <schedule S, class Measure, class Visit>
constexpr void for_each_message(const S& s, place at, int k, const Measure& measure, Visit&& visit) {
  message_end open{-1, false, 0, 0};
  long long between = 0;  // peer and direction in one number, since compilers read two that were just written too late
  s.round(at, k, [&](const auto& step) {
    const message_end next = detail::end_of(step, at.rank, measure(step.what));
    const long long ends = next.sent ? next.peer + 1LL : -(next.peer + 1LL);
    if (ends == between) {
      open.size += next.size;
      open.folded += next.folded;
      return;
    }
    if (between != 0) visit(open);
    open = next;
    between = ends;
  });
  if (open.peer >= 0) visit(open);
}

}  // namespace tutti
