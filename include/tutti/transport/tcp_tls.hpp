// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between hosts where others may listen: over TCP, encrypted by TLS.

#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/tls.hpp>
#include <tutti/transport/tcp/transport.hpp>

namespace tutti {

/// The transport `tcp` with all of its connections encrypted by TLS 1.3, and none to anybody without a certificate.
/// Each byte is encrypted once and decrypted once by the threads of the ranks.
class tcp_tls : public detail::tcp_transport<detail::tcp_tls_security> {
 public:
  using detail::tcp_transport<detail::tcp_tls_security>::tcp_transport;

  /// What the launcher says; include <tutti/run_tcp_tls.hpp>. Throws `usage_error` naming the variable that is wrong or
  /// missing.
  static tcp_options from_environment();
};

static_assert(transport<tcp_tls> && landing_lane<tcp_tls::lane_type>);

}  // namespace tutti
