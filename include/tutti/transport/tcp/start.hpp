// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the ranks of a job find each other.

#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <asio/io_context.hpp>

namespace tutti::detail {

/// Meets the others.
tcp_membership tcp_meet(asio::io_context& io, const tcp_options& options);

}  // namespace tutti::detail
