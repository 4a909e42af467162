// SPDX-License-Identifier: BSL-1.0
#pragma once

// What most tests of tcp instantiate, which takes longer to compile than the tests themselves: it is compiled once, in
// tcp_instances.cpp. Not for tests that set macros of the library.

#include <tutti/run_tcp.hpp>
#include <tutti/tutti.hpp>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

extern template class tutti::detail::tcp_service<tutti::detail::tcp_plain>;
extern template class tutti::detail::basic_tcp_group<tutti::detail::tcp_plain>;
