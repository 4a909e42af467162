// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/block_set.hpp>

#include <type_traits>

namespace tutti {

/// Which operand of the operation the arriving value is. Only operations that do not commute can tell.
enum class side : unsigned char { left, right };

/// Send the blocks, with the values they had when the round began.
///
/// Here and below, `vector` tells which of a rank's vectors the blocks belong to, for schedules that work on several:
/// 0 is the one that begins as the caller's input.
struct send_to {
  int peer;
  block_set what;
  int vector = 0;
};

/// Receive the blocks, overwriting what is there.
struct recv_from {
  int peer;
  block_set what;
  int vector = 0;
};

/// Receive the blocks and fold them into what is there, as left or right operand.
///
/// Several combines into one block in one round make one left fold: the arriving left operands in listed order, then
/// the rank's own value, then the arriving right operands in listed order: `((l1 op l2) op own) op r1 ...`. Listing
/// peers by ascending rank, those below as left and those above as right, folds in rank order on every rank alike.
struct combine {
  int peer;
  block_set what;
  side operand;
  int vector = 0;
};

/// Fold the blocks of this rank's vector `from` into those of its vector `into`, as left or right operand. Such steps
/// are done in listed order when all that the round receives has arrived.
struct reduce_local {
  block_set what;
  side operand;
  int from;
  int into;
};

template <class Step>
inline constexpr bool is_send = std::is_same_v<Step, send_to>;
template <class Step>
inline constexpr bool is_recv = std::is_same_v<Step, recv_from>;
template <class Step>
inline constexpr bool is_combine = std::is_same_v<Step, combine>;
template <class Step>
inline constexpr bool is_local = std::is_same_v<Step, reduce_local>;

}  // namespace tutti
