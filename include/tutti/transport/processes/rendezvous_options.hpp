// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/processes/rendezvous_message.hpp>

#include <unistd.h>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::detail {

/// How ranks meet. All have defaults; a test may set any.
struct rendezvous_options {
  /// How long rank 0 waits until all ranks have come, and then again until all have attached. A rank that finds no rank
  /// 0 looks as long for it. `nanoseconds::max()`: for ever.
  std::chrono::nanoseconds limit = std::chrono::seconds(30);
  /// What the shared memory looks like to this program, the same number on every rank.
  std::uint64_t layout = native_layout;
  /// How long a connection may stay silent before it has said who it is.
  std::chrono::nanoseconds hello_limit = std::chrono::seconds(2);
  /// How long rank 0 stays to tell the ranks still to come that it has failed.
  std::chrono::nanoseconds farewell = std::chrono::milliseconds(400);
  /// Connections that the system keeps until rank 0 looks.
  int backlog = 128;
  std::uint32_t version = rendezvous_version;
  uid_t user = geteuid();

  /// Connections that may be silent at the same time; one more drops the oldest.
  static constexpr int max_silent = 64;
};

[[gnu::cold]] inline message rendezvous_text(std::string_view job) {
  return message() << "rendezvous of job \"" << job << "\": ";
}

/// "300 ms"
[[gnu::cold]] inline std::string in_milliseconds(std::chrono::nanoseconds span) {
  return message() << static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count())
                   << " ms";
}

[[gnu::cold]] inline std::string process_text(pid_t process) {
  if (process <= 0) return "a process that is not known";
  return message() << "process " << static_cast<long>(process);
}

/// Why a rank whose `attach` throws is the end for the others.
[[gnu::cold]] inline failure attach_failure(std::string_view job, int rank, std::string_view what) {
  return {errc::peer_failed, rank, rendezvous_text(job) << "rank " << rank << " failed to attach: " << what};
}

}  // namespace tutti::detail
