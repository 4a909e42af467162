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

/// Adds the step to the message before it, if that has the same peer and direction.
constexpr bool joins(message_end& before, const message_end& step) {
  if (step.peer != before.peer || step.sent != before.sent) return false;
  before.size += step.size;
  before.folded += step.folded;
  return true;
}

}  // namespace detail

/// Calls `visit(message_end)` for the messages of a rank in round k, in listed order. Consecutive steps to the same
/// peer in the same direction make one message. `measure(block_set)` says how large a set is: in blocks or bytes.
template <schedule S, class Measure, class Visit>
constexpr void for_each_message(const S& s, place at, int k, const Measure& measure, Visit&& visit) {
  message_end open{-1, false, 0, 0};
  s.round(at, k, [&](const auto& step) {
    const message_end next = detail::end_of(step, at.rank, measure(step.what));
    if (detail::joins(open, next)) return;
    if (open.peer >= 0) visit(open);
    open = next;
  });
  if (open.peer >= 0) visit(open);
}

}  // namespace tutti
