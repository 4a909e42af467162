// SPDX-License-Identifier: BSL-1.0
#pragma once

// Connections whose bytes are sent as they are: what the parts of the transport ask of a connection, at its simplest.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/check_options.hpp>
#include <tutti/transport/tcp/options.hpp>
#include <tutti/transport/tcp/plain_wire.hpp>
#include <tutti/transport/tcp/socket_io.hpp>

#include <asio/error_code.hpp>
#include <asio/ip/tcp.hpp>

#include <sys/socket.h>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

namespace tutti::detail {

/// Who began a connection.
enum class tcp_side { client, server };

/// Neither encrypts nor asks for certificates. Stateless.
struct tcp_plain {
  using socket = asio::ip::tcp::socket;
  using wire = tcp_plain_wire;

  /// Throws `usage_error` if the options ask for more.
  static tcp_plain of(const tcp_options& o) {
    for (const auto& [name, file] : {std::pair("certificate (TUTTI_TLS_CERTIFICATE)", &o.certificate),
                                     std::pair("private_key (TUTTI_TLS_KEY)", &o.private_key),
                                     std::pair("authority (TUTTI_TLS_AUTHORITY)", &o.authority)})
      if (!file->empty())
        throw usage_error(tcp_text(o) << name << " is \"" << *file
                                      << "\", expected none: run_tcp does not encrypt, but run_tcp_tls does "
                                         "(tutti/run_tcp_tls.hpp)");
    return {};
  }

  /// Calls `handler(error)` when both ends know who the other is.
  template <class Handler>
  static void async_secure(socket&, tcp_side, Handler&& handler) {
    handler(asio::error_code());
  }
  /// What this end has against the other, or the other against this one; empty if nothing.
  static std::string objection(const socket&) { return {}; }
  /// The same of one whose first bytes are no hello.
  static const char* objection(const std::byte* first) {
    const bool tls = first[0] == std::byte{0x16} && first[1] == std::byte{0x03};
    return tls ? "began with TLS, which this rank does not use" : nullptr;
  }
  /// Looks for one byte without taking it.
  static socket_result peek(socket& s) noexcept {
    std::byte byte{};
    const ssize_t got = ::recv(s.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    socket_result result = socket_outcome(got);
    if (got < 0 && errno == EINTR) result.error = 0;
    result.ended = got == 0;
    return result;
  }
};

}  // namespace tutti::detail
