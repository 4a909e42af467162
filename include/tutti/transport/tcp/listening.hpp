// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where a rank listens.

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/await.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/listener.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/retry.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// The addresses of a host, by name or number. What the resolver still does when time is up is of no interest.
template <class Resolver>
asio::error_code resolve_host(asio::io_context& io, const std::string& host,
                              std::chrono::steady_clock::time_point until, Resolver& resolver,
                              std::vector<asio::ip::address>& addresses) {
  asio::ip::address number;
  if (parse_address(host, number) == nullptr) {
    addresses.assign(1, number);
    return {};
  }
  struct search {
    asio::steady_timer over;
    asio::error_code wrong = asio::error::timed_out;
    std::vector<asio::ip::address> found{};
    bool ended = false;
  };
  const auto s = std::make_shared<search>(search{asio::steady_timer(io, until)});
  resolver.resolve(io, host, [s](const asio::error_code& wrong, const std::vector<asio::ip::address>& found) {
    s->wrong = !wrong && found.empty() ? asio::error_code(asio::error::host_not_found) : wrong;
    s->found = found;
    s->ended = true;
    s->over.cancel();
  });
  const auto no_limit = std::chrono::steady_clock::time_point::max();
  if (!s->ended)
    await(
        io, no_limit, [&](auto handler) { s->over.async_wait(std::move(handler)); }, [] {});
  addresses = std::move(s->found);
  return s->wrong;
}

/// Takes the listener of the options, if there is one: from here on it is closed, whatever goes wrong.
inline descriptor_owner listener_of(const tcp_options& options) {
  if (options.listener < 0) return {};
  asio::error_code wrong;
  const char* const expected = expected_listener(options.listener, wrong);
  if (expected == nullptr) return descriptor_owner(options.listener);
  message text = tcp_text(options);
  text << "listener is descriptor " << options.listener << ", expected " << expected;
  if (wrong) text << " (" << wrong.message() << ")";
  throw usage_error(text);
}

/// The address that the options say; of that family if an interface is what they name. False if they say none.
inline bool wanted_address(const tcp_options& options, const tcp_plan& plan, bool six, asio::ip::address& address) {
  if (!options.address.empty()) {
    address = plan.address;
    return true;
  }
  if (options.interface.empty()) return false;
  std::string others;
  if (!address_of_interface(options.interface, six, address, others))
    throw usage_error(tcp_text(options) << "interface (TUTTI_INTERFACE) is \""
                                        << options.interface << "\", expected one with an IPv" << (six ? 6 : 4)
                                        << " address; this host has " << others);
  return true;
}

[[noreturn, gnu::cold]] inline void cannot_listen(const tcp_options& options, const std::string& where,
                                                  const asio::error_code& wrong) {
  if (wrong == asio::error::address_in_use)
    throw resource_error(tcp_text(options)
                         << "cannot listen at " << where
                         << ": another program does, perhaps rank 0 of another job, or of an earlier one; "
                         << "end it, or give another port");
  if (is_system_error(wrong, EADDRNOTAVAIL))
    throw usage_error(tcp_text(options) << "cannot listen at " << where << ", which is no address of this host");
  throw resource_error(tcp_text(options) << "cannot listen at " << where << ": " << shortage_text(wrong));
}

/// Opens the listener of a rank other than 0, unless it has one; `here` is the address by which it has reached rank 0.
/// `told` is where the others find it.
inline void listen_as_guest(tcp_listener& listener, const tcp_options& options, const tcp_plan& plan,
                            const tcp_settings& settings, const asio::ip::address& here,
                            asio::ip::tcp::endpoint& told) {
  asio::ip::address address = here;
  wanted_address(options, plan, here.is_v6(), address);
  const bool adopted = listener.is_open();
  if (!adopted) {
    unsigned skip = 0;
    fill_with_random_bits(&skip, sizeof skip);
    asio::error_code wrong;
    listener.open(address, options.first_port, options.last_port, skip % 65536, settings.backlog, wrong);
    if (wrong) {
      message where;
      where << "address " << address.to_string();
      if (options.first_port != 0)
        where << " (TUTTI_ADDRESS, TUTTI_INTERFACE), port " << options.first_port << " to " << options.last_port
              << " (TUTTI_PORTS)";
      cannot_listen(options, where, wrong);
    }
  }
  const asio::ip::tcp::endpoint bound = unmapped(listener.local_endpoint());
  told = {options.address.empty() && options.interface.empty() ? bound.address() : address, bound.port()};
  if (!told.address().is_unspecified()) return;
  if (told.address().is_v4() != here.is_v4() && (!adopted || told.address().is_v4()))
    throw usage_error(tcp_text(options) << "address (TUTTI_ADDRESS) is " << told.address().to_string()
                                        << ", but rank 0 was reached by IPv" << (here.is_v6() ? 6 : 4) << "; give "
                                        << (here.is_v6() ? "::" : "0.0.0.0"));
  told.address(here);
}

/// The addresses at which rank 0 is to listen, those first that other hosts may reach. Empty with the error where the
/// name of the master has none yet.
template <class Resolver>
std::vector<asio::ip::address> addresses_of_master(asio::io_context& io, const tcp_options& options,
                                                   const tcp_plan& plan, std::chrono::steady_clock::time_point until,
                                                   Resolver& resolver, asio::error_code& wrong) {
  std::vector<asio::ip::address> addresses(1);
  asio::ip::address number;
  const bool named = parse_address(plan.master.host, number) != nullptr;
  if (wanted_address(options, plan, !named && number.is_v6(), addresses[0])) {
    if (!named && addresses[0].is_unspecified() && addresses[0].is_v6() != number.is_v6())
      throw usage_error(tcp_text(options)
                        << "address (TUTTI_ADDRESS) is " << addresses[0].to_string()
                        << ", but master (MASTER_ADDR, MASTER_PORT) \"" << options.master << "\" is reached by IPv"
                        << (number.is_v6() ? 6 : 4) << "; give " << (number.is_v6() ? "::" : "0.0.0.0"));
    return addresses;
  }
  wrong = resolve_host(io, plan.master.host, until, resolver, addresses);
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const asio::ip::address& address) { return !address.is_loopback(); });
  return addresses;
}

/// Throws if no other host can reach any of them, but ranks are there.
inline void check_not_only_loopback(const tcp_options& options, const std::vector<asio::ip::address>& addresses) {
  if (options.local_size == -1 || options.local_size == options.size) return;
  message listed;
  for (const asio::ip::address& address : addresses) {
    if (!address.is_loopback()) return;
    listed << (listed.str().empty() ? "" : ", ") << address.to_string();
  }
  throw usage_error(tcp_text(options) << "master (MASTER_ADDR, MASTER_PORT) is \"" << options.master
                                      << "\", which means this host itself here (" << listed.str() << "), but only "
                                      << options.local_size << " of " << options.size
                                      << " ranks are on this host; give an address that the others reach, as master or "
                                         "for rank 0 alone (TUTTI_ADDRESS, TUTTI_INTERFACE)");
}

/// Opens the listener of rank 0 at the first of its addresses that this host has. Tries again while the port is in use
/// or the system is short of something, and while the name is not known.
template <class Resolver>
void listen_as_host(asio::io_context& io, tcp_listener& listener, const tcp_options& options, const tcp_plan& plan,
                    const tcp_settings& settings, std::chrono::steady_clock::time_point until, Resolver& resolver) {
  retry_times times(settings.patience);
  for (;;) {
    asio::error_code unknown;
    const std::vector<asio::ip::address> addresses = addresses_of_master(io, options, plan, until, resolver, unknown);
    const bool last = std::chrono::steady_clock::now() >= until;
    asio::error_code wrong;
    message tried;
    if (!unknown) {
      std::vector<asio::ip::address> own;
      for (const asio::ip::address& address : addresses) {
        const asio::ip::tcp::endpoint at(address, static_cast<asio::ip::port_type>(plan.master.port));
        tried << (tried.str().empty() ? "" : ", ") << endpoint_text(at);
        if (address.is_unspecified() || is_own_address(address)) own.push_back(address);
      }
      if (!own.empty()) check_not_only_loopback(options, own);
      wrong = system_error_code(EADDRNOTAVAIL);
      for (const asio::ip::address& address : own) {
        wrong.clear();
        listener.open({address, static_cast<asio::ip::port_type>(plan.master.port)}, settings.backlog, wrong);
        if (!wrong) return;
        if (!is_system_error(wrong, EADDRNOTAVAIL)) break;
      }
    }
    if (is_system_error(wrong, EADDRNOTAVAIL))
      throw usage_error(tcp_text(options)
                        << "cannot listen at master (MASTER_ADDR, MASTER_PORT) \"" << options.master << "\", that is "
                        << tried.str() << ": no address of this host, which must be that of rank 0; if others reach it "
                        << "there all the same, say where to listen by address (TUTTI_ADDRESS), such as 0.0.0.0");
    const bool passes = unknown || wrong == asio::error::address_in_use || is_shortage(wrong);
    if (unknown && last)
      throw timed_out(0, tcp_text(options) << "the name of the master (MASTER_ADDR) \"" << plan.master.host
                                           << "\" cannot be resolved: " << unknown.message());
    if (!passes || last) cannot_listen(options, "master (MASTER_ADDR, MASTER_PORT), that is " + tried.str(), wrong);
    const auto left = until - std::chrono::steady_clock::now();
    const auto pause = times.pause();
    pause_for(io, pause < left ? pause : left);
  }
}

}  // namespace tutti::detail
