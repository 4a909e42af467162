// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/simulated/lane_end.hpp>
#include <tutti/transport/simulated/turn.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <cstdint>
#include <string>

namespace tutti::detail {

enum class standing : unsigned char {
  ready,    ///< goes on when the time is its clock's
  waiting,  ///< until something is delivered to it, or its deadline passes
  left      ///< its function has returned or thrown
};

/// One rank of the whole, seen by the others only while it waits for its turn.
struct simulated_rank {
  turn go;
  virtual_time clock = 0;
  standing state = standing::ready;
  virtual_time deadline = never;
  bool news = false;  // something that it waits for has been delivered since it last waited
  bool came = false;  // its thread has begun
  bool crashed = false;
  lane_end* looks_at = nullptr;  // where it looked last in vain
  std::uint64_t sent = 0;        // messages
  std::uint64_t under_way = 0;   // of those, not delivered yet
  std::uint64_t looks = 0;       // in vain, since anything else happened
  std::uint64_t looked = 0;      // what had happened when it looked
  int next_group = 1;
  std::string ended = {};  // how the rank came to its end, if it failed; what follows its number in texts
  bool unwinding = false;  // an end of a part went while an exception passed, and nobody knows yet how far it goes
};

}  // namespace tutti::detail
