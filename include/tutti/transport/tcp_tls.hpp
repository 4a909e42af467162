// SPDX-License-Identifier: BSL-1.0
#pragma once

// How bytes move between hosts where others may listen: over TCP, encrypted by TLS.

#include <tutti/core/transport.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/tls.hpp>
#include <tutti/transport/tcp/transport.hpp>

#include <span>
#include <utility>

namespace tutti {

/// The transport `tcp` with all of its connections encrypted by TLS 1.3, and none to anybody without a certificate.
/// Each byte is encrypted once and decrypted once by the threads of the ranks.
class tcp_tls : public detail::tcp_transport<detail::tcp_tls_security> {
  using base = detail::tcp_transport<detail::tcp_tls_security>;

 public:
  using base::base;

  /// What the launcher says; include <tutti/run_tcp_tls.hpp>. Throws `usage_error` naming the variable that is wrong or
  /// missing.
  static tcp_options from_environment();

  /// This rank's end of a new group of some ranks of this one, in that order: see `splitting_transport`. Throws what
  /// this group has failed of, `usage_error` naming the argument that is wrong, `resource_error`. Sends nothing.
  tcp_tls subgroup(int number, std::span<const int> members) { return tcp_tls(part(number, members)); }

 private:
  explicit tcp_tls(base&& made) : base(std::move(made)) {}
};

static_assert(splitting_transport<tcp_tls> && landing_lane<tcp_tls::lane_type>);

}  // namespace tutti
