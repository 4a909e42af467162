// SPDX-License-Identifier: BSL-1.0
#pragma once

// How the ranks of a job find each other.

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/listening.hpp>
#include <tutti/transport/tcp/membership.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain.hpp>
#include <tutti/transport/tcp/rendezvous_guest.hpp>
#include <tutti/transport/tcp/rendezvous_host.hpp>
#include <tutti/transport/tcp/resolver.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <asio/io_context.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace tutti::detail {

/// What rank 0 does.
template <class Security, class Resolver>
basic_tcp_membership<typename Security::socket> meet_as_host(asio::io_context& io, const tcp_options& options,
                                                             const tcp_settings& settings, const tcp_plan& plan,
                                                             tcp_listener listener, Resolver& resolver,
                                                             const Security& security,
                                                             const failure* refusal = nullptr) {
  const auto until = time_in(refusal == nullptr ? options.start_timeout : settings.last_words);
  if (!listener.is_open()) listen_as_host(io, listener, options, plan, settings, until, resolver);
  TUTTI_FAULT_POINT("tcp.host.listening");
  const auto host =
      std::make_shared<tcp_rendezvous_host<Security>>(io, options, settings, std::move(listener), until, security);
  // What was cancelled has ended too when this returns.
  struct closing {
    asio::io_context& io;
    tcp_rendezvous_host<Security>& host;
    ~closing() {
      host.close();
      try {
        io.poll();
      } catch (...) {  // what is under way already counts
      }
      io.restart();
    }
  } const at_the_end{io, *host};
  host->start();
  if (refusal != nullptr) host->refuse_all(*refusal);
  while (!host->over())
    if (io.run_one() == 0) io.restart();
  return host->take();
}

/// The listener that the options gave, if they did.
inline tcp_listener adopted_listener(asio::io_context& io, const tcp_options& options, descriptor_owner given) {
  tcp_listener listener(io);
  asio::error_code wrong;
  if (given) listener.adopt(std::move(given), wrong);
  if (wrong) throw resource_error(tcp_text(options) << "the listener cannot be used: " << shortage_text(wrong));
  return listener;
}

/// The start has failed on this rank before it has met anybody: the others are told, as far as they can be reached in a
/// short while.
template <class Security, class Resolver>
void tell_start_failed(asio::io_context& io, const tcp_options& options, const tcp_settings& settings,
                       descriptor_owner given, Resolver& resolver, const Security& security,
                       const failure& reason) noexcept {
  try {
    tcp_plan plan;
    if (options.size < 2 || options.rank < 0 || options.rank >= options.size) return;
    if (options.token.size() > tcp_credentials::token_size) return;
    tcp_listener listener = adopted_listener(io, options, std::move(given));
    const bool found = parse_host_and_port(options.master, plan.master) == nullptr;
    if (options.rank == 0) {
      const bool known = options.address.empty() || parse_address(options.address, plan.address) == nullptr;
      if (listener.is_open() || (found && known))
        meet_as_host(io, options, settings, plan, std::move(listener), resolver, security, &reason);
    } else if (found) {
      tcp_options hurried = options;
      hurried.start_timeout = std::min(options.start_timeout, settings.last_words);
      tcp_rendezvous_guest<Resolver, Security>(io, hurried, settings, plan, std::move(listener), resolver, security)
          .decline(reason);
    }
  } catch (...) {  // they cannot be reached, or know
  }
}

/// A job of one has nobody to meet.
template <class Socket>
basic_tcp_membership<Socket> meet_alone(asio::io_context& io, const tcp_options& options, tcp_listener listener) {
  basic_tcp_membership<Socket> made{{}, std::vector<tcp_member>(1), {}, std::move(listener)};
  fill_with_random_bits(made.session.data(), made.session.size());
  made.members[0].host = host_identity();
  made.members[0].network = network_identity(made.members[0].host);
  made.members[0].memory = memory_identity(made.members[0].network, options.host);
  if (made.listener.is_open()) made.members[0].endpoint = made.listener.local_endpoint();
  made.control.emplace_back(io);
  return made;
}

/// Meets the other ranks of the job, and returns when all have come: one connection to rank 0 and a listener are open
/// then. Runs `io` itself; nothing of it is left to run when it returns or throws. Costs four messages for each rank.
///
/// Rank 0 listens at `options.master`; the others connect to it again and again, with pauses that are random in part,
/// until it answers. If one fails, all that have come throw the same:
/// - `timed_out` naming the ranks that had not come after `start_timeout` of rank 0, whose clock decides;
/// - `mismatch` with both values, of versions, orders of bytes, layouts or sizes that differ, or of a rank that is
/// there
///   twice;
/// - `usage_error` or `resource_error` of a rank that cannot listen, or that others cannot reach;
/// - `peer_failed` naming a rank that left.
///
/// A rank whose options are wrong tells rank 0 for up to a second, or, being rank 0, those who come within 400 ms, so
/// that all throw that. One whose connection breaks before it has said where it listens comes again, for which rank 0
/// waits 10 s; one that has said that has left if it breaks.
///
/// A rank to which rank 0 has not answered throws `timed_out` after its own `start_timeout`, saying what it found at
/// each address. `usage_error` for options that are wrong, before anything is opened; `resource_error` naming the limit
/// where descriptors are short all the time. Whoever does not know job and token is dropped without harm.
template <class Resolver = tcp_resolver, class Security = tcp_plain>
basic_tcp_membership<typename Security::socket> tcp_meet(asio::io_context& io, const tcp_options& options,
                                                         const tcp_settings& settings = {}, Resolver resolver = {},
                                                         const Security& security = {}) {
  return with_start_errors(options, [&] {
    descriptor_owner given;
    tcp_plan plan;
    try {
      given = listener_of(options);
      plan = check_options(options);
    } catch (const error& e) {
      tell_start_failed(io, options, settings, std::move(given), resolver, security, failure_of(e, options.rank));
      throw;
    }
    tcp_listener listener = adopted_listener(io, options, std::move(given));
    if (options.size == 1) return meet_alone<typename Security::socket>(io, options, std::move(listener));
    if (options.rank == 0) return meet_as_host(io, options, settings, plan, std::move(listener), resolver, security);
    return tcp_rendezvous_guest<Resolver, Security>(io, options, settings, plan, std::move(listener), resolver,
                                                    security)
        .join();
  });
}

}  // namespace tutti::detail
