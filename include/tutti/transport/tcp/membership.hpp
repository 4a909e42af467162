// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/transport/tcp/listener.hpp>

#include <asio/ip/tcp.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::detail {

/// What all ranks know of one.
struct tcp_member {
  asio::ip::tcp::endpoint endpoint;  ///< where it listens, as it is reached from here
  std::uint64_t host = 0;            ///< the same for ranks that share processors
  std::uint64_t network = 0;         ///< the same for ranks that share addresses: a host, or a network namespace of it
  std::uint64_t memory = 0;          ///< the same for ranks that may share memory
};

/// What the start gives to the group.
template <class Socket>
struct basic_tcp_membership {
  std::array<std::byte, 16> session{};  ///< random bits, the same on all ranks
  std::vector<tcp_member> members;      ///< by rank
  std::vector<Socket> control;          ///< rank 0: by rank, its own closed; others: one, to rank 0
  tcp_listener listener;                ///< this rank's, open
};

using tcp_membership = basic_tcp_membership<asio::ip::tcp::socket>;

}  // namespace tutti::detail
