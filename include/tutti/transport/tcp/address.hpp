// SPDX-License-Identifier: BSL-1.0
#pragma once

// How addresses and ports are written.

#include <tutti/core/message.hpp>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>

#include <net/if.h>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::detail {

/// Reads a whole number from 0 to 65535, digits only; false if the text is none.
inline bool parse_port(std::string_view text, int& port) {
  int sum = 0;
  bool good = !text.empty();
  for (const char digit : text) {
    good = good && digit >= '0' && digit <= '9';
    if (!good) break;
    sum = 10 * sum + (digit - '0');
    good = sum <= 65535;
  }
  if (good) port = sum;
  return good;
}

/// "192.0.2.1", "::1", "fe80::1%eth0", "fe80::1%2". Of an IPv4 address in an IPv6 one, "::ffff:192.0.2.1", that is
/// returned. Null if all is well, else what is wrong with the text.
inline const char* parse_address(std::string_view text, asio::ip::address& address) {
  const std::size_t percent = text.find('%');
  const std::string_view number = text.substr(0, percent);
  if (text.size() > 100) return "is too long";
  asio::error_code wrong;
  asio::ip::address parsed = asio::ip::make_address(std::string(number), wrong);
  if (wrong || text.find('\0') != std::string_view::npos) return "is no numeric address, such as 192.0.2.1 or fd00::1";
  if (parsed.is_v6()) {
    asio::ip::address_v6 six = parsed.to_v6();
    if (percent != std::string_view::npos) {
      const std::string scope(text.substr(percent + 1));
      unsigned index = if_nametoindex(scope.c_str());
      int digits = 0;
      if (index == 0 && parse_port(scope, digits)) index = static_cast<unsigned>(digits);
      if (index == 0) return "names an interface after % that this host does not have";
      six.scope_id(index);
    } else if (six.is_link_local()) {
      return "is a link-local address, which needs its interface, as in fe80::1%eth0";
    }
    parsed = six.is_v4_mapped() ? asio::ip::address(asio::ip::make_address_v4(asio::ip::v4_mapped, six))
                                : asio::ip::address(six);
  } else if (percent != std::string_view::npos) {
    return "has an interface after %, which only IPv6 addresses have";
  }
  address = parsed;
  return nullptr;
}

/// A host, by name or number without brackets, and a port from 1.
struct host_and_port {
  std::string host;
  int port = 0;
};

/// Reads "HOST:PORT" or "[IPV6]:PORT". Null if all is well, else what was expected.
inline const char* parse_host_and_port(std::string_view text, host_and_port& parsed) {
  constexpr std::string_view between = "]:";
  std::string_view host;
  std::string_view port;
  if (text.substr(0, 1) == "[") {
    const std::size_t end = text.find(between);
    if (end == std::string_view::npos) return "expected [IPV6 ADDRESS]:PORT, as in [::1]:29500";
    host = text.substr(1, end - 1);
    port = text.substr(end + between.size());
    asio::ip::address address;
    if (host.find(':') == std::string_view::npos) return "expected an IPv6 address in the brackets";
    if (const char* const wrong = parse_address(host, address)) return wrong;
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return "expected HOST:PORT, but there is no port";
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos)
      return "expected HOST:PORT; where an IPv6 address ends and the port begins is told by brackets, as in "
             "[::1]:29500";
  }
  if (host.empty()) return "expected HOST:PORT, but there is no host";
  if (host.size() > 253) return "expected a host of at most 253 characters";
  for (const char c : host)
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '/' || c == '[' || c == ']')
      return "expected the name or the address of a host";
  int number = 0;
  if (!parse_port(port, number) || number == 0) return "expected a port from 1 to 65535 after the last colon";
  parsed.host = host;
  parsed.port = number;
  return nullptr;
}

/// "192.0.2.1:29500", "[::1]:29500"
[[gnu::cold]] inline std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  message text;
  if (endpoint.address().is_v6())
    text << "[" << address << "]";
  else
    text << address;
  return text << ":" << static_cast<unsigned>(endpoint.port());
}

/// An IPv4 address that comes in an IPv6 one is that.
inline asio::ip::tcp::endpoint unmapped(const asio::ip::tcp::endpoint& endpoint) {
  if (!endpoint.address().is_v6() || !endpoint.address().to_v6().is_v4_mapped()) return endpoint;
  return {asio::ip::make_address_v4(asio::ip::v4_mapped, endpoint.address().to_v6()), endpoint.port()};
}

/// With the interface through which it is seen from here, where an address means nothing without.
inline asio::ip::address with_scope(const asio::ip::address& address, const asio::ip::address& seen_from) {
  if (!address.is_v6() || !address.to_v6().is_link_local()) return address;
  asio::ip::address_v6 six = address.to_v6();
  six.scope_id(seen_from.is_v6() ? seen_from.to_v6().scope_id() : 0);
  return six;
}

}  // namespace tutti::detail
