// SPDX-License-Identifier: BSL-1.0
#pragma once

// How a rank's messages are told apart on one communicator of MPI's.

namespace tutti::detail {

/// The tags of a lane, and those beside the lanes. A borrowed communicator has the user's messages on it too, which
/// must have tags below `first`.
struct mpi_tags {
  static constexpr int most_lanes = 1024;
  static constexpr int first = 24'000;  // MPI has tags up to 32,767 at least

  static constexpr int note = first;          ///< ranks tell each other something
  static constexpr int farewell = first + 1;  ///< the last message of a rank to each other one, after a failure

  static constexpr int small(int lane) { return first + 2 + 3 * lane; }    ///< a header and up to 16 KiB
  static constexpr int token(int lane) { return first + 3 + 3 * lane; }    ///< the receiver awaits a large message
  static constexpr int payload(int lane) { return first + 4 + 3 * lane; }  ///< the large message, nothing else
};

}  // namespace tutti::detail
