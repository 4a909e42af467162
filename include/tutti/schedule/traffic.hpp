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

/// Calls `visit(message_end)` for the messages of a rank in round k, in listed order. Consecutive steps to the same
/// peer in the same direction make one message. `measure(block_set)` says how large a set is: in blocks or bytes.
template <schedule S, class Measure, class Visit>
constexpr void for_each_message(const S& s, place at, int k, const Measure& measure, Visit&& visit) {
  message_end open{-1, false, 0, 0};
  const auto add = [&](int peer, bool sent, long long size, long long folded) {
    if (peer == open.peer && sent == open.sent) {
      open.size += size;
      open.folded += folded;
      return;
    }
    if (open.peer >= 0) visit(open);
    open = {peer, sent, size, folded};
  };
  s.round(at, k, [&](auto step) {
    if constexpr (is_local<decltype(step)>) {
      add(at.rank, false, 0, measure(step.what));
    } else {
      const long long size = measure(step.what);
      add(step.peer, is_send<decltype(step)>, size, is_combine<decltype(step)> ? size : 0);
    }
  });
  if (open.peer >= 0) visit(open);
}

}  // namespace tutti
