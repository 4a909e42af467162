// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <asio/io_context.hpp>

#include <cstdint>

namespace tutti::detail {

/// Lets data connections in and makes them, on the service thread, as long as the group lives. Calls, on that thread:
/// - `owner.established(int peer, asio::ip::tcp::socket&& socket)`: non-blocking, TCP_NODELAY, nothing of it read yet;
/// - `owner.cannot_connect(int peer, const std::string& why)`: after `start_timeout`.
template <class Owner>
class tcp_door {
 public:
  tcp_door(asio::io_context& io, const tcp_options& options, tcp_membership& membership, Owner& owner);
  /// Begins to let connections in.
  void start();
  /// A connection to that rank is wanted; any thread, any number of times.
  void connect(int peer);
  /// Cancels everything; on the service thread, or when it has ended. Nothing of the owner is called after that.
  void close() noexcept;
  /// Connections that were none of this job's; any thread.
  std::uint64_t strangers() const;
};

}  // namespace tutti::detail
