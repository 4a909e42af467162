// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <signal.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Finds the addresses of a host by its name, as this system does it. What stands in for it in a test has the same
/// member: `resolve(io, host, done)` calls `done(error, addresses)` on the thread that runs `io`.
///
/// The system's own call cannot be ended before its time: whoever stops waiting for it may still wait in the destructor
/// of the io_context.
class tcp_resolver {
 public:
  template <class Done>
  void resolve(asio::io_context& io, const std::string& host, Done done) {
    // Asio does it on a thread of its own, which is to take no signals.
    struct signals_blocked {
      sigset_t before;
      signals_blocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
      }
      ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    } const blocked;
    auto made = std::make_shared<asio::ip::tcp::resolver>(io);
    asio::ip::tcp::resolver& resolver = *made;
    resolver.async_resolve(host, "0", asio::ip::resolver_base::numeric_service,
                           [made = std::move(made), done = std::move(done)](
                               const asio::error_code& wrong, const asio::ip::tcp::resolver::results_type& results) {
                             std::vector<asio::ip::address> addresses;
                             if (!wrong)
                               for (const auto& result : results) addresses.push_back(result.endpoint().address());
                             done(wrong, std::move(addresses));
                           });
  }
};

}  // namespace tutti::detail
