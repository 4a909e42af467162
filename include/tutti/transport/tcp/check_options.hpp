// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/address.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <sys/resource.h>
#include <cerrno>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// How every error of the start begins: "tcp, rank 2 of 4: ".
[[gnu::cold]] inline message tcp_text(int rank, int size) {
  return message() << "tcp, rank " << rank << " of " << size << ": ";
}
[[gnu::cold]] inline message tcp_text(const tcp_options& options) { return tcp_text(options.rank, options.size); }

/// "the limit of 1024 open descriptors of this process (RLIMIT_NOFILE) is reached", if that is the error.
[[gnu::cold]] inline std::string shortage_text(const asio::error_code& wrong) {
  rlimit limit{};
  if (!is_system_error(wrong, EMFILE) || getrlimit(RLIMIT_NOFILE, &limit) != 0) return wrong.message();
  return message() << "the limit of " << static_cast<unsigned long long>(limit.rlim_cur)
                   << " open descriptors of this process (RLIMIT_NOFILE, ulimit -n) is reached";
}

/// Which errors say that the system is short of something, which may be there again later.
inline bool is_shortage(const asio::error_code& wrong) {
  for (const int number : {EMFILE, ENFILE, ENOBUFS, ENOMEM})
    if (is_system_error(wrong, number)) return true;
  return false;
}

/// What `f()` returns, which is a part of the start: what the system refuses comes out as `resource_error`.
template <class F>
auto with_start_errors(const tcp_options& options, F&& f) {
  try {
    return f();
  } catch (const error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw resource_error(tcp_text(options) << "the system refused memory");
  } catch (const std::system_error& e) {
    throw resource_error(tcp_text(options) << "the start failed: " << shortage_text(e.code()));
  }
}

/// What the error says, without what its category adds, as the failure of that rank.
[[gnu::cold]] inline failure failure_of(const error& e, int rank) {
  std::string text = e.what();
  const std::string added = ": " + e.code().message();
  if (text.ends_with(added)) text.resize(text.size() - added.size());
  return {static_cast<errc>(e.code().value()), rank, std::move(text)};
}

/// That span, or the longest that clocks can count.
inline std::chrono::milliseconds countable(std::chrono::milliseconds span) {
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 365 * 10);
  return span < most ? span : most;
}
/// Then, or never if that is too far away to be counted.
inline std::chrono::steady_clock::time_point time_in(std::chrono::milliseconds span) {
  return std::chrono::steady_clock::now() + countable(span);
}

/// Sixteenths of a heartbeat are counted in milliseconds; and a system that is busy may well let a rank wait for longer
/// than a smaller one.
inline constexpr std::chrono::milliseconds smallest_heartbeat{16};

/// What the options say, taken apart.
struct tcp_plan {
  host_and_port master;       ///< empty for rank 0 with a listener, and in a job of one
  asio::ip::address address;  ///< unspecified IPv4 where none is given
};

/// Throws `usage_error` naming the first value that is wrong, the rank, and what was expected.
inline tcp_plan check_options(const tcp_options& o) {
  tcp_plan plan;
  const auto refuse = [&](std::string_view what, const auto& value, const auto& expected) {
    throw usage_error(tcp_text(o) << what << " is " << value << ", expected " << expected);
  };
  const auto quoted = [](const std::string& text) { return message() << "\"" << text << "\""; };
  if (o.size < 1) refuse("size", o.size, "at least 1");
  if (o.rank < 0 || o.rank >= o.size)
    refuse("rank", o.rank, (message() << "at least 0 and less than size, which is " << o.size).str());
  if (o.local_size != -1 && (o.local_size < 1 || o.local_size > o.size))
    refuse("local_size", o.local_size, (message() << "-1, or from 1 to size, which is " << o.size).str());
  if (o.token.size() > tcp_credentials::token_size)
    throw usage_error(tcp_text(o) << "token (TUTTI_TOKEN) has " << o.token.size() << " bytes, expected at most "
                                  << tcp_credentials::token_size);
  const bool needs_master = o.size > 1 && (o.rank != 0 || o.listener < 0);
  if (needs_master && o.master.empty())
    throw usage_error(tcp_text(o) << "master is empty, expected HOST:PORT of rank 0 (MASTER_ADDR and MASTER_PORT)");
  if (!o.master.empty()) {
    if (const char* const wrong = parse_host_and_port(o.master, plan.master))
      throw usage_error(tcp_text(o) << "master (MASTER_ADDR, MASTER_PORT) is " << quoted(o.master).str() << ": "
                                    << wrong);
    asio::ip::address address;
    if (parse_address(plan.master.host, address) == nullptr && (address.is_unspecified() || address.is_multicast()))
      throw usage_error(tcp_text(o) << "master (MASTER_ADDR, MASTER_PORT) is " << quoted(o.master).str()
                                    << ", where nobody can be reached; give the address of rank 0's host, and where "
                                       "rank 0 shall listen by address (TUTTI_ADDRESS)");
  }
  if (!o.address.empty()) {
    if (const char* const wrong = parse_address(o.address, plan.address))
      throw usage_error(tcp_text(o) << "address (TUTTI_ADDRESS) is " << quoted(o.address).str() << ", which " << wrong);
    if (!o.interface.empty())
      throw usage_error(tcp_text(o) << "address (TUTTI_ADDRESS) is " << quoted(o.address).str()
                                    << " and interface (TUTTI_INTERFACE) is " << quoted(o.interface).str()
                                    << ", expected one of them");
  }
  for (const auto& [name, port] : {std::pair("first_port", o.first_port), std::pair("last_port", o.last_port)})
    if (port < 0 || port > 65535)
      refuse(name, port, "from 1 to 65535, or 0 for both if any port will do (TUTTI_PORTS)");
  if (o.last_port < o.first_port || (o.first_port == 0 && o.last_port != 0))
    throw usage_error(tcp_text(o) << "first_port is " << o.first_port << " and last_port is " << o.last_port
                                  << ", expected the first to be at most the last, or 0 for both (TUTTI_PORTS)");
  if (o.listener < -1) refuse("listener", o.listener, "a descriptor, or -1");
  if (o.listener >= 0 && o.first_port != 0 && o.rank != 0)
    throw usage_error(tcp_text(o) << "listener is " << o.listener << " and first_port is " << o.first_port
                                  << ", expected one of them");
  const auto milliseconds = [](std::chrono::milliseconds span) {
    return (message() << static_cast<long long>(span.count()) << " ms").str();
  };
  if (o.start_timeout.count() <= 0)
    refuse("start_timeout (TUTTI_START_TIMEOUT_MS)", milliseconds(o.start_timeout), "more than 0");
  if (o.heartbeat < smallest_heartbeat)
    refuse("heartbeat (TUTTI_HEARTBEAT_MS)", milliseconds(o.heartbeat), "at least " + milliseconds(smallest_heartbeat));
  if (o.busy_poll.count() < -1)
    refuse("busy_poll (TUTTI_BUSY_POLL_US)", (message() << static_cast<long long>(o.busy_poll.count()) << " us").str(),
           "at least 0, or -1");
  return plan;
}

}  // namespace tutti::detail
