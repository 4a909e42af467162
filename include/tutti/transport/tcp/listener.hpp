// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tutti::detail {

inline asio::error_code system_error_code(int number) { return {number, asio::error::get_system_category()}; }
/// Not by std::errc: Asio's category does not know what all of its numbers mean.
inline bool is_system_error(const asio::error_code& wrong, int number) {
  const bool numbered = wrong.category() == asio::error::get_system_category() ||
                        wrong.category() == std::system_category() || wrong.category() == std::generic_category();
  return numbered && wrong.value() == number;
}

/// Opens a TCP socket that programs which this process starts do not inherit. Asio's own call has no such flag.
template <class Socket>
void open_socket(Socket& socket, const asio::ip::tcp& protocol, asio::error_code& wrong) {
  descriptor_owner made(::socket(protocol.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!made) {
    wrong = system_error_code(errno);
    return;
  }
  socket.assign(protocol, made.get(), wrong);
  if (!wrong) made.release();
}

/// Null if that is a TCP socket that listens, else what was expected; `wrong` is the system's error, if it has one.
inline const char* expected_listener(int descriptor, asio::error_code& wrong) {
  const auto option = [&](int name) {
    int value = 0;
    socklen_t size = sizeof value;
    if (getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0) return value;
    wrong = system_error_code(errno);
    return -1;
  };
  const int family = option(SO_DOMAIN);
  if (wrong) return "a socket";
  if ((family != AF_INET && family != AF_INET6) || option(SO_PROTOCOL) != IPPROTO_TCP) return "a TCP socket";
  return option(SO_ACCEPTCONN) == 1 ? nullptr : "a socket that listens";
}

/// Where a rank lets connections in: one listening socket, bound to one address.
class tcp_listener {
 public:
  using endpoint = asio::ip::tcp::endpoint;

  explicit tcp_listener(asio::io_context& io) : acceptor_(io) {}

  bool is_open() const { return acceptor_.is_open(); }
  /// Where it is bound.
  endpoint local_endpoint() const { return local_; }
  asio::ip::tcp::acceptor& acceptor() { return acceptor_; }
  void close() noexcept {
    asio::error_code ignored;
    acceptor_.close(ignored);
  }

  /// Listens there. A port that was in use a moment ago may be had again at once. An IPv6 address lets no IPv4 in.
  void open(const endpoint& at, int backlog, asio::error_code& wrong) {
    asio::ip::tcp::acceptor made(acceptor_.get_executor());
    open_socket(made, at.protocol(), wrong);
    if (!wrong) made.set_option(asio::ip::tcp::acceptor::reuse_address(true), wrong);
    if (!wrong && at.address().is_v6()) made.set_option(asio::ip::v6_only(true), wrong);
    if (!wrong) made.bind(at, wrong);
    if (!wrong) made.listen(backlog, wrong);
    endpoint bound;
    if (!wrong) bound = made.local_endpoint(wrong);
    if (wrong) return;
    acceptor_ = std::move(made);
    local_ = bound;
  }

  /// The same at the first port that is free of `[first, last]`, beginning `skip` after the first.
  void open(const asio::ip::address& at, int first, int last, unsigned skip, int backlog, asio::error_code& wrong) {
    const auto count = static_cast<unsigned>(last - first + 1);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned port = static_cast<unsigned>(first) + (skip + i) % count;
      open(endpoint(at, static_cast<asio::ip::port_type>(port)), backlog, wrong);
      if (wrong != asio::error::address_in_use) return;
    }
  }

  /// Takes a descriptor of a socket that listens, and closes it in the end.
  void adopt(descriptor_owner descriptor, asio::error_code& wrong) {
    int family = AF_UNSPEC;
    socklen_t size = sizeof family;
    getsockopt(descriptor.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
    fcntl(descriptor.get(), F_SETFD, FD_CLOEXEC);
    asio::ip::tcp::acceptor made(acceptor_.get_executor());
    made.assign(family == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6(), descriptor.get(), wrong);
    if (wrong) return;
    descriptor.release();
    made.native_non_blocking(true, wrong);
    if (!wrong) local_ = made.local_endpoint(wrong);
    acceptor_ = std::move(made);
  }

  /// The next connection that is waiting, without blocking; none and the error where there is none.
  descriptor_owner accept(asio::error_code& wrong) {
    for (;;) {
      descriptor_owner taken(accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!taken && errno == EINTR) continue;
      wrong = taken ? asio::error_code() : system_error_code(errno);
      return taken;
    }
  }

 private:
  asio::ip::tcp::acceptor acceptor_;
  endpoint local_;
};

}  // namespace tutti::detail
