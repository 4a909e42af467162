// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between hosts: over TCP connections, one for each pair of ranks that has something to say.

#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/transport.hpp>

#include <span>
#include <utility>

namespace tutti {

/// A transport whose ranks are processes that reach each other by TCP, on one host or several. A message goes from the
/// sender's memory to its socket by one system call where there is room, and from the receiver's socket to where it is
/// wanted; large ones travel in pieces, and one is folded while the next is on its way. Blocking collectives allocate
/// only the first time that they need more than before. The group outlives it; it stays where it is once it has made a
/// lane.
class tcp : public detail::tcp_transport<detail::tcp_plain> {
  using base = detail::tcp_transport<detail::tcp_plain>;

 public:
  using base::base;

  /// What the launcher says; include <tutti/run_tcp.hpp>. Throws `usage_error` naming the variable that is wrong or
  /// missing.
  static tcp_options from_environment();

  /// This rank's end of a new group of some ranks of this one, in that order: see `splitting_transport`. Throws what
  /// this group has failed of, `usage_error` naming the argument that is wrong, `resource_error`. Sends nothing.
  tcp subgroup(int number, std::span<const int> members) { return tcp(part(number, members)); }

 private:
  explicit tcp(base&& made) : base(std::move(made)) {}
};

static_assert(splitting_transport<tcp> && landing_lane<tcp::lane_type>);

}  // namespace tutti
