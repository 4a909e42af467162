// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/mpi/group.hpp>

#include <sched.h>
#include <cstdint>

namespace tutti::detail {

/// Which call a lane carries, and how it waits: it looks again and again, since MPI has nothing that a rank could sleep
/// on; between the looks it gives way to others, and hears what they have to tell.
class mpi_waiting {
 public:
  mpi_waiting(mpi_group& group, const std::chrono::nanoseconds& limit)
      : group_(&group),
        limit_(&limit),
        patience_(group.job().crowded() ? 100 : 5),
        spins_(group.job().crowded() ? 0 : 256) {}

  void idle() {
    if (++idle_ > spins_) sched_yield();
    if (idle_ % looks == 0) look_up();
  }
  void glance() {
    if (++glances_ % looks == 0) {
      look_up();
    } else {
      group_->check();
    }
  }
  void awake() {
    idle_ = 0;
    started_ = {};
    looked_around_ = false;
  }

 protected:
  waiting_place here() const { return {group_->rank(), awaited_, round_, call_}; }

  mpi_group* group_;
  call call_;
  std::uint64_t fingerprint_ = 0;
  int round_ = -1;
  int awaited_ = 0;  // whom the last look in vain was for

 private:
  using clock = std::chrono::steady_clock;

  [[gnu::noinline]] void look_up() {
    group_->check();
    group_->job().go_on();
    group_->job().poll();
    group_->check();
    const auto now = clock::now();
    if (started_ == clock::time_point{}) started_ = now;
    const auto waited = now - started_;
    if (*limit_ > std::chrono::nanoseconds::zero() && waited >= *limit_) expire(waited);
    // The rank waited for may be in another call, or gone: then what is waited for never comes.
    if (waited < patience_) return;
    if (group_->has_left_before(awaited_, call_, waited)) {
      group_->fail(left_early(here()));
      group_->raise();
    }
    if (looked_around_ && awaited_ == looked_at_) return;
    looked_around_ = true;
    looked_at_ = awaited_;
    if (awaited_ != group_->rank()) group_->look_around(here());
  }
  [[noreturn, gnu::noinline, gnu::cold]] void expire(clock::duration waited) {
    group_->fail(
        too_late(here(), awaited_, std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(), true));
    group_->raise();
  }

  static constexpr unsigned looks = 16;  // between two looks at the clock

  const std::chrono::nanoseconds* limit_;
  // Where ranks share processors waiting for long says little.
  std::chrono::milliseconds patience_;
  unsigned spins_;  // looks before it gives way between them
  unsigned idle_ = 0;
  unsigned glances_ = 0;
  bool looked_around_ = false;
  int looked_at_ = -1;
  clock::time_point started_{};
};

}  // namespace tutti::detail
