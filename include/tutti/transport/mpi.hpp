// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between ranks that MPI has started: by its messages, or by its own collectives.

#include <tutti/core/clock.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/mpi/collectives.hpp>
#include <tutti/transport/mpi/group.hpp>
#include <tutti/transport/mpi/lane.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace tutti {

/// A transport over a communicator of MPI's. All algorithms run over its messages between two ranks; large ones go from
/// where they lie to where they are wanted, small ones are copied once at each end. Blocking collectives allocate only
/// the first time that they need more than before.
///
/// One thread of a rank calls MPI: MPI_THREAD_FUNNELED is enough, or MPI_THREAD_SERIALIZED where that thread is not the
/// one that has initialised MPI. `abort` may be called by any thread at any level.
class mpi {
 public:
  using group_type = detail::mpi_group;
  using lane_type = detail::mpi_lane;
  static constexpr std::size_t pack_bytes = detail::mpi_letter::most_bytes;
  static constexpr std::size_t copy_bytes = detail::mpi_letter::most_bytes;
  static constexpr std::size_t exchange_copy_bytes = detail::mpi_letter::most_bytes;

  /// All ranks of a run.
  explicit mpi(std::shared_ptr<detail::mpi_group> whole) : whole_(std::move(whole)), group_(whole_) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  lane_type make_lane(int index) { return {*group_, index, limit_}; }
  void timeout(std::chrono::nanoseconds limit) { limit_ = limit; }
  /// Also hears what others have told: a rank that computes for long may call it.
  void check() {
    group_->check();
    group_->job().poll();
    group_->check();
  }
  void abort(std::string_view text) { group_->abort(text); }
  /// As between processes of one host; a network takes longer, by factors that are alike for all algorithms.
  cost_parameters costs() const { return {1.0e-6, 0.5e-6, 0.15e-9, 0.03e-9}; }

  /// The smallest number above those of all groups that this rank was ever in.
  int next_group() const { return group_->next_group(); }
  /// This rank's end of a new group of those ranks, in that order. The members alone call it, all with the same
  /// arguments, and it returns when all have. Where one of them fails before that, none gets a group, for MPI makes
  /// none without it: all throw what this group has failed of, or `peer_failed` naming that rank; `timed_out` where it
  /// has not come within the timeout. Costs two short messages of each member but the first, and what MPI does. A
  /// process that dies ends the job, as MPI has it.
  mpi subgroup(int number, std::span<const int> members) {
    try {
      mpi made(whole_, std::make_shared<detail::mpi_group>(whole_, *group_, number, members, limit_));
      made.limit_ = limit_;
      return made;
    } catch (...) {
      group_->miss(number, members);
      throw;
    }
  }

  /// MPI's own collectives among these ranks.
  detail::mpi_collectives native_collectives() { return detail::mpi_collectives(*group_); }

 private:
  mpi(std::shared_ptr<detail::mpi_group> whole, std::shared_ptr<detail::mpi_group> group)
      : whole_(std::move(whole)), group_(std::move(group)) {}

  std::shared_ptr<detail::mpi_group> whole_;
  std::shared_ptr<detail::mpi_group> group_;
  std::chrono::nanoseconds limit_{0};
};

static_assert(native_transport<mpi> && landing_lane<mpi::lane_type>);

}  // namespace tutti
