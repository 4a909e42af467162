// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>
#include <tutti/transport/mpi/api.hpp>
#include <tutti/transport/mpi/note.hpp>

#include <atomic>

namespace tutti::detail {

class mpi_job;

/// Who takes in the notes about one communicator of a job.
class mpi_listener {
 public:
  using function = void (*)(mpi_listener&, int from, const mpi_note&);

  mpi_listener(int number, function take) : number_(number), take_(take) {}
  mpi_listener(const mpi_listener&) = delete;
  mpi_listener& operator=(const mpi_listener&) = delete;
  int number() const { return number_; }
  /// Nothing is to be done before a collective of MPI's own but to write it down: that was so when it was last seen to,
  /// and nothing has happened in the job since.
  TUTTI_ALWAYS_INLINE bool calm() const noexcept { return calm_.load(std::memory_order_relaxed); }

 protected:
  ~mpi_listener() = default;
  /// From now on what comes on this communicator is received in vain: who has sent it waits for that.
  void drain(MPI_Comm comm) { drained_ = comm; }

 private:
  friend class mpi_job;
  std::atomic<bool> calm_{false};
  MPI_Comm drained_ = MPI_COMM_NULL;
  int number_;
  function take_;
  mpi_listener* next_ = nullptr;
};

}  // namespace tutti::detail
