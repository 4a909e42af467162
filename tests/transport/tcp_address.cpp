// SPDX-License-Identifier: BSL-1.0

// How addresses and ports are read and written.

#include <tutti/transport/tcp/address.hpp>

#include <tutti/transport/tcp/host.hpp>

#include <doctest/doctest.h>

#include <net/if.h>
#include <string>
#include <string_view>

using tutti::detail::endpoint_text;
using tutti::detail::host_and_port;
using tutti::detail::parse_address;
using tutti::detail::parse_host_and_port;
using tutti::detail::parse_port;

namespace {

/// What is wrong with it; empty if nothing is.
std::string refusal(std::string_view text) {
  host_and_port parsed{"unchanged", -7};
  const char* const wrong = parse_host_and_port(text, parsed);
  if (wrong == nullptr) return {};
  CHECK(parsed.host == "unchanged");
  CHECK(parsed.port == -7);
  return wrong;
}
void check_reads(std::string_view text, std::string_view host, int port) {
  CAPTURE(text);
  host_and_port parsed;
  CHECK(parse_host_and_port(text, parsed) == nullptr);
  CHECK(parsed.host == host);
  CHECK(parsed.port == port);
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// As it is written again; "wrong: ..." if it is none.
std::string address(std::string_view text) {
  asio::ip::address parsed;
  if (const char* const wrong = parse_address(text, parsed)) return std::string("wrong: ") + wrong;
  return parsed.to_string();
}

}  // namespace

TEST_CASE("C11: ports are whole numbers up to 65535") {
  int port = -7;
  for (const char* const wrong :
       {"", "abc", "-1", "65536", "+1", " 1", "1 ", "1x", "0x1", "1.0", "99999999999999999999"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_port(wrong, port));
    CHECK(port == -7);
  }
  for (const int right : {0, 1, 80, 29500, 65535}) {
    CHECK(parse_port(std::to_string(right), port));
    CHECK(port == right);
  }
  CHECK(parse_port("00080", port));
  CHECK(port == 80);
}

TEST_CASE("hosts and ports") {
  check_reads("127.0.0.1:29500", "127.0.0.1", 29500);
  check_reads("node-1.example.org:1", "node-1.example.org", 1);
  check_reads("localhost:65535", "localhost", 65535);
}

TEST_CASE("C9: IPv6 addresses have brackets, and may have an interface") {
  check_reads("[::1]:29500", "::1", 29500);
  check_reads("[fd00::2]:1", "fd00::2", 1);
  check_reads("[::ffff:127.0.0.1]:5", "::ffff:127.0.0.1", 5);
  check_reads("[fe80::1%lo]:29500", "fe80::1%lo", 29500);
  check_reads("[fe80::1%1]:29500", "fe80::1%1", 29500);
}

TEST_CASE("C11: what is no host and port, and why") {
  for (const char* const port :
       {"host:", "host:0", "host:65536", "host:-1", "host:abc", "host: 1", "[::1]:", "[::1]:0"}) {
    CAPTURE(port);
    CHECK(contains(refusal(port), "expected a port from 1 to 65535 after the last colon"));
  }
  CHECK(contains(refusal(""), "there is no port"));
  CHECK(contains(refusal("host"), "there is no port"));
  CHECK(contains(refusal(":29500"), "there is no host"));
  for (const char* const bare : {"::1:29500", "fd00::2:29500", "::1", "a:b:1", "host:1:2", "fe80::1%eth0:29500"}) {
    CAPTURE(bare);
    CHECK(contains(refusal(bare), "is told by brackets, as in [::1]:29500"));
  }
  for (const char* const open : {"[::1", "[::1]", "[::1]29500", "["}) {
    CAPTURE(open);
    CHECK(contains(refusal(open), "expected [IPV6 ADDRESS]:PORT"));
  }
  CHECK(contains(refusal("[]:1"), "expected an IPv6 address in the brackets"));
  CHECK(contains(refusal("[127.0.0.1]:1"), "expected an IPv6 address in the brackets"));
  CHECK(contains(refusal("[::x]:1"), "is no numeric address"));
  CHECK(contains(refusal("[fe80::1%nosuch]:1"), "names an interface after % that this host does not have"));
  for (const char* const name : {"ho st:1", "host\n:1", "host/x:1", "ho]st:1", "\x7f:1"}) {
    CAPTURE(name);
    CHECK(contains(refusal(name), "expected the name or the address of a host"));
  }
  const auto long_name = [](std::size_t length) { return std::string(length, 'a').append(":1"); };
  CHECK(refusal(long_name(253)).empty());
  CHECK(contains(refusal(long_name(254)), "at most 253 characters"));
}

TEST_CASE("numeric addresses") {
  CHECK(address("192.0.2.1") == "192.0.2.1");
  CHECK(address("0.0.0.0") == "0.0.0.0");
  CHECK(address("::1") == "::1");
  CHECK(address("FD00:0::2") == "fd00::2");
  for (const char* const wrong :
       {"", "abc", "1", "127.1", "256.0.0.1", "1.2.3.4.5", "1.2.3", "::x", "1:2", ":::", "host"}) {
    CAPTURE(wrong);
    CHECK(address(wrong) == "wrong: is no numeric address, such as 192.0.2.1 or fd00::1");
  }
  CHECK(address(std::string(101, '1')) == "wrong: is too long");
  CHECK(address(std::string_view("::1\0", 4)) == "wrong: is no numeric address, such as 192.0.2.1 or fd00::1");
}

TEST_CASE("C9: scope ids, and IPv4 addresses in IPv6 ones") {
  CHECK(address("::ffff:192.0.2.1") == "192.0.2.1");
  CHECK(address("fe80::1") == "wrong: is a link-local address, which needs its interface, as in fe80::1%eth0");
  CHECK(address("fe80::1%nosuch") == "wrong: names an interface after % that this host does not have");
  CHECK(address("fe80::1%") == "wrong: names an interface after % that this host does not have");
  CHECK(address("127.0.0.1%lo") == "wrong: has an interface after %, which only IPv6 addresses have");
  CHECK(address("fe80::1%lo") == "fe80::1%lo");
  asio::ip::address parsed;
  REQUIRE(parse_address("fe80::1%7", parsed) == nullptr);
  CHECK(parsed.to_v6().scope_id() == 7);
  REQUIRE(parse_address("fe80::1%lo", parsed) == nullptr);
  CHECK(parsed.to_v6().scope_id() == if_nametoindex("lo"));
}

TEST_CASE("endpoints as they are written") {
  CHECK(endpoint_text({asio::ip::make_address("192.0.2.1"), 80}) == "192.0.2.1:80");
  CHECK(endpoint_text({asio::ip::make_address("::1"), 65535}) == "[::1]:65535");
  CHECK(endpoint_text(tutti::detail::unmapped({asio::ip::make_address("::ffff:192.0.2.1"), 80})) == "192.0.2.1:80");
  CHECK(endpoint_text(tutti::detail::unmapped({asio::ip::make_address("fd00::1"), 80})) == "[fd00::1]:80");
}

TEST_CASE("C9: a link-local address is seen through the interface of the one who looks") {
  using tutti::detail::with_scope;
  asio::ip::address here;
  asio::ip::address there;
  REQUIRE(parse_address("fe80::1%3", here) == nullptr);
  REQUIRE(parse_address("fe80::2%9", there) == nullptr);
  CHECK(with_scope(there, here).to_v6().scope_id() == 3);
  CHECK(with_scope(there, here).to_v6().to_bytes() == there.to_v6().to_bytes());
  CHECK(with_scope(there, asio::ip::make_address("127.0.0.1")).to_v6().scope_id() == 0);
  CHECK(with_scope(asio::ip::make_address("fd00::1"), here) == asio::ip::make_address("fd00::1"));
  CHECK(with_scope(asio::ip::make_address("192.0.2.1"), here) == asio::ip::make_address("192.0.2.1"));
}

TEST_CASE("C10: which addresses and interfaces this host has") {
  using tutti::detail::address_of_interface;
  using tutti::detail::is_own_address;
  asio::ip::address found;
  std::string others;
  CHECK(address_of_interface("lo", false, found, others));
  CHECK(found == asio::ip::make_address("127.0.0.1"));
  CHECK(contains(others, "lo 127.0.0.1"));
  CHECK_FALSE(address_of_interface("nosuch", false, found, others));
  CHECK_FALSE(address_of_interface("", true, found, others));
  CHECK(is_own_address(asio::ip::make_address("127.0.0.1")));
  CHECK(is_own_address(asio::ip::make_address("127.5.6.7")));
  CHECK(is_own_address(asio::ip::make_address("::1")));
  CHECK_FALSE(is_own_address(asio::ip::make_address("203.0.113.77")));
  CHECK_FALSE(is_own_address(asio::ip::make_address("2001:db8::77")));
  tutti::detail::for_each_address([&](std::string_view, const asio::ip::address& own) {
    if (own.is_v4() || !own.to_v6().is_link_local()) CHECK(is_own_address(own));
    return true;
  });
}

TEST_CASE("a host is the same each time, and a network is one of a host") {
  const std::uint64_t host = tutti::detail::host_identity();
  CHECK(host == tutti::detail::host_identity());
  CHECK(tutti::detail::network_identity(host) == tutti::detail::network_identity(host));
  CHECK(tutti::detail::network_identity(host) != tutti::detail::network_identity(host + 1));
}
