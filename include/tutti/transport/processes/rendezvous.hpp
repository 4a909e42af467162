// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the ranks of a job find each other on one host, and come to share a descriptor that one of them made.

#include <tutti/core/clock.hpp>
#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes/rendezvous_guest.hpp>
#include <tutti/transport/processes/rendezvous_host.hpp>
#include <tutti/transport/processes/rendezvous_options.hpp>

#include <fcntl.h>
#include <string_view>
#include <utility>

namespace tutti::detail {

/// Throws unless that is a place, and rank 0 alone has a descriptor.
inline void check_rendezvous(int rank, int size, std::string_view job, const rendezvous_options& options) {
  if (size < 1 || rank < 0 || rank >= size)
    throw usage_error(rendezvous_text(job)
                      << "rank is " << rank << " of " << size << ", must be at least 0 and less than the size");
  if (options.limit.count() <= 0)
    throw usage_error(rendezvous_text(job)
                      << "the limit is " << static_cast<long long>(options.limit.count()) << " ns, must be positive");
}

/// Hands the descriptor of rank 0 to the other `size - 1` ranks of the job, all processes (or threads) of one user,
/// host and network namespace. Every rank calls `attach(descriptor)`, rank 0 with its own; the call returns when that
/// has returned on all ranks. Returns the descriptor, with close-on-exec, on the ranks other than 0, which pass -1;
/// nothing on rank 0, which keeps its own.
///
/// If one fails, all fail, a rank that comes after that by its own limit. The clock of rank 0 decides: all have to come
/// within `options.limit` of its call, and to attach within as much again. Every rank throws the same:
/// - `timed_out` naming the ranks that had not come or not attached;
/// - `mismatch` with both values, of sizes, versions or memory layouts that differ, or of a rank that is there twice;
/// - `peer_failed` naming a rank that died meanwhile, or whose `attach` threw. That rank throws what was thrown.
///
/// A rank that finds no rank 0 throws `timed_out` after the limit since its own call. Rank 0 throws `resource_error`
/// naming the process that holds the name of the job all the time; `resource_error` too where the system refuses
/// sockets or descriptors. Connections of other users, of other jobs, or of anybody who does not say who it is, are
/// dropped without harm.
///
/// The name of the socket is abstract: nothing remains of it, whatever ends the processes. Costs three messages in
/// either direction for each rank.
template <class Attach>
descriptor_owner share_descriptor(int rank, int size, std::string_view job, int descriptor,
                                  const rendezvous_options& options, Attach&& attach) {
  check_rendezvous(rank, size, job, options);
  if (rank != 0) {
    if (descriptor >= 0)
      throw usage_error(rendezvous_text(job)
                        << "rank " << rank << " has descriptor " << descriptor << ", must be -1 except on rank 0");
    return rendezvous_guest(rank, size, job, options).join(std::forward<Attach>(attach));
  }
  if (fcntl(descriptor, F_GETFD) < 0)
    throw usage_error(rendezvous_text(job) << "descriptor is " << descriptor << " on rank 0, must be an open one");
  if (size == 1)
    attach(descriptor);
  else
    rendezvous_host(size, job, options).share(descriptor, std::forward<Attach>(attach));
  return {};
}

/// The same where there is nothing to attach.
inline descriptor_owner share_descriptor(int rank, int size, std::string_view job, int descriptor,
                                         std::chrono::nanoseconds limit = rendezvous_options{}.limit) {
  rendezvous_options options;
  options.limit = limit;
  return share_descriptor(rank, size, job, descriptor, options, [](int) {});
}

/// Called in place of `share_descriptor` on a rank that has nothing to share or cannot take part: every other rank
/// throws what `reason` stands for. Returns when all have been told, or after the limit. Throws nothing: the caller has
/// an exception of its own to throw.
inline void refuse_all(int rank, int size, std::string_view job, const failure& reason,
                       const rendezvous_options& options) noexcept {
  try {
    check_rendezvous(rank, size, job, options);
    if (rank != 0)
      rendezvous_guest(rank, size, job, options).refuse(reason);
    else if (size > 1)
      rendezvous_host(size, job, options).refuse(reason, options.limit);
  } catch (...) {  // those who were not told find out by their own limit
  }
}
inline void refuse_all(int rank, int size, std::string_view job, const failure& reason,
                       std::chrono::nanoseconds limit = rendezvous_options{}.limit) noexcept {
  rendezvous_options options;
  options.limit = limit;
  refuse_all(rank, size, job, reason, options);
}

}  // namespace tutti::detail
