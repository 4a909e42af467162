// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/host.hpp>
#include <tutti/transport/tcp/options.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tutti::detail {

/// A job whose ranks are threads of this process and meet at a port that the system chooses, which nobody else can take
/// in between; nobody else knows its name either.
class tcp_loopback {
 public:
  /// Throws `resource_error` if the system refuses a socket, or has no loopback address.
  explicit tcp_loopback(int size) : size_(size), job_(random_text()), token_(random_text()) {
    if (size == 1) return;
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    if (listen_at(four, "127.0.0.1:", four.sin_port) || listen_at(six, "[::1]:", six.sin6_port)) return;
    throw resource_error(message() << "run_tcp: the system refused a socket that listens on loopback: "
                                   << std::generic_category().message(errno));
  }

  /// For that rank. Rank 0 takes the listener along, once.
  tcp_options options(int rank) {
    tcp_options o;
    o.rank = rank;
    o.size = size_;
    o.local_size = size_;
    o.master = master_;
    o.job = job_;
    o.token = token_;
    if (rank == 0) o.listener = listener_.release();
    return o;
  }

 private:
  static std::string random_text() {
    std::array<unsigned char, 16> bits{};
    fill_with_random_bits(bits.data(), bits.size());
    std::string text;
    for (const unsigned char byte : bits) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }
  template <class Address>
  bool listen_at(Address& at, std::string_view host, const in_port_t& port) {
    socklen_t length = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    listener_.reset(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener_ || ::bind(listener_.get(), address, length) != 0 || ::listen(listener_.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener_.get(), address, &length) != 0)
      return false;
    master_ = message() << host << static_cast<unsigned>(ntohs(port));
    return true;
  }

  int size_;
  std::string job_;
  std::string token_;
  std::string master_;
  descriptor_owner listener_;
};

}  // namespace tutti::detail
