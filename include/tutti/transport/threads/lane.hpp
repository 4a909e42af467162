// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/threads/lane_boards.hpp>

#include <exception>
#include <string>

namespace tutti::detail {

/// A lane between threads: messages to one peer through channels, shared rounds on boards.
class threads_lane : public lane_boards {
 public:
  using lane_boards::lane_boards;

  TUTTI_ALWAYS_INLINE void open(const call& c) {
    group_->check();
    call_ = c;
    fingerprint_ = c.fingerprint();
    round_ = -1;
    group_->state(rank_).log.write(c);
  }

  TUTTI_ALWAYS_INLINE void begin_round() {
    ++round_;
    begin_channels_round();
  }

  TUTTI_ALWAYS_INLINE bool settled() { return boards_settled() && channels_settled(); }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    awake();
    try {
      group_->fail({errc::peer_failed, rank_,
                    message() << "rank " << rank_ << " failed in " << call_.describe() << ": " << reason});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
    asymmetric_fence::heavy();
    abandon_channels();
    abandon_boards();
  }
};

}  // namespace tutti::detail
