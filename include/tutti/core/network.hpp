// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace tutti {

/// A network in the LogGP model with several ports and folding: all times in seconds. The defaults are those of a
/// cluster on 100 Gbit/s.
///
/// A message of n bytes keeps its sender's processor busy for `overhead`, then a port of its sender for `n * byte` and
/// `gap`: the bytes first. Its first byte reaches the receiver `latency` after it has left; there a port is busy for
/// `n * byte` and `gap`, as the bytes come in, with one message after the other in the order in which they arrive. Then
/// the receiver's processor is busy for `overhead`, and for `n * fold` if the message is folded. So a message alone
/// takes `overhead + n * byte + latency + overhead` and what folding takes. Receivers take in what arrives before they
/// ask for it. Source: Alexandrov, Ionescu, Schauser, Scheiman, LogGP, 1995.
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
