// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>

#include <string>

namespace tutti {

/// How one rank takes part in a job whose ranks talk through TCP. What is wrong is a `usage_error` that names the
/// value, the rank, and what was expected.
struct tcp_options {
  int rank = 0;         ///< in `[0, size)`
  int size = 1;         ///< number of ranks of the job, the same on all
  int local_size = -1;  ///< number of ranks on this host; -1: not known

  /// Where rank 0 is, the same on all: "node1:29500", "192.0.2.1:29500", "[::1]:29500", "[fe80::1%eth0]:29500". Rank 0
  /// listens there, at the first of the name's addresses that is one of its host, rather not at a loopback one.
  std::string master;
  /// Who belongs together: any text, another for each job.
  std::string job;
  /// At most 64 bytes that only the ranks of the job know. Without it whoever knows the job may come in.
  std::string token;

  /// Any text: `run_hierarchical` takes ranks of one host whose texts differ for ranks of several, to try something
  /// out.
  std::string host;

  /// Numeric address at which this rank listens, and that is told to the others; "0.0.0.0" or "::" listens at all, and
  /// tells that by which rank 0 was reached. Empty: that by which rank 0 was reached.
  std::string address;
  /// Or the interface whose address that is, such as "eth0".
  std::string interface;
  /// The ports at which a rank other than 0 may listen, both included; 0 and 0: any that is free.
  int first_port = 0;
  int last_port = 0;
  /// Or a descriptor of a TCP socket that listens already; it is closed in the end, or when the start fails. That of
  /// rank 0 is where the others find it. -1: none.
  int listener = -1;

  /// For `run_tcp_tls` all three, for `run_tcp` none: files in PEM format with this rank's certificate, followed by
  /// those between it and the authority if there are any, with its private key, not encrypted, and with the
  /// certificates of the authorities of which one must have signed the certificate of every rank.
  std::string certificate;
  std::string private_key;
  std::string authority;

  /// How long the ranks wait for each other at the start, and for a connection later on.
  std::chrono::milliseconds start_timeout{30'000};
  /// A rank of which nothing is heard for so long has failed, and so has one of which nothing comes for so long
  /// although it has written something. At least 16 ms.
  std::chrono::milliseconds heartbeat{5'000};
  /// How long a rank that waits looks again and again before it sleeps; -1: as is good for this host.
  std::chrono::microseconds busy_poll{-1};
};

}  // namespace tutti
