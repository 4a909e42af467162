// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// A network in the LogGP model with several ports and folding: all times in seconds. The defaults are those of a
/// cluster on 100 Gbit/s.
///
/// A message of n bytes keeps its sender's processor busy for `overhead`, and a port of its sender for
/// `gap + n * byte`; it reaches the receiver `latency` after its last byte has left, where it keeps a port busy for
/// `gap + n * byte`, in the order of arrival, as its bytes come in, and the processor for `overhead`, and for
/// `n * fold` if it is folded. Source: Alexandrov, Ionescu, Schauser, Scheiman, LogGP, 1995.
struct network {
  double latency = 1.5e-6;   ///< L: from the sender's network interface to the receiver's
  double overhead = 300e-9;  ///< o: processor time for one message, at each end
  double gap = 50e-9;        ///< g: time of a port for one message
  double byte = 80e-12;      ///< G: time of a port for one byte
  double fold = 40e-12;      ///< processor time to fold in one byte
  int ports = 1;             ///< messages that a rank can send, and as many receive, at a time

  friend constexpr bool operator==(const network&, const network&) = default;
};

}  // namespace tutti
