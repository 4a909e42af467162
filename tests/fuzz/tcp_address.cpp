// SPDX-License-Identifier: BSL-1.0

// Addresses as users write them: whatever the text is, it is understood or refused with a reason, and what is
// understood is understood again when it is written out.

#include <tutti/transport/tcp/address.hpp>

#include <string>
#include <string_view>

#include "replay.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::detail;
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  int port = -7;
  if (parse_port(text, port)) {
    fuzz::require(port >= 0 && port <= 65535);
    fuzz::require(text.find_first_not_of("0123456789") == std::string_view::npos);
    // Zeros in front do not matter.
    const std::size_t first = std::min(text.find_first_not_of('0'), text.size() - 1);
    fuzz::require(std::to_string(port) == text.substr(first));
  } else {
    fuzz::require(port == -7);
  }

  asio::ip::address address;
  const char* wrong = parse_address(text, address);
  if (wrong == nullptr) {
    fuzz::require(!address.is_v6() || !address.to_v6().is_v4_mapped());
    asio::ip::address again;
    fuzz::require(parse_address(address.to_string(), again) == nullptr);
    fuzz::require(again == address);
  } else {
    fuzz::require(*wrong != '\0');
    fuzz::require(address == asio::ip::address());
  }

  host_and_port both;
  wrong = parse_host_and_port(text, both);
  if (wrong == nullptr) {
    fuzz::require(both.port >= 1 && both.port <= 65535);
    fuzz::require(!both.host.empty() && both.host.size() <= 253);
    fuzz::require(both.host.find('\0') == std::string::npos);
    const bool six = both.host.find(':') != std::string::npos;
    const std::string written = (six ? "[" + both.host + "]" : both.host) + ":" + std::to_string(both.port);
    host_and_port again;
    fuzz::require(parse_host_and_port(written, again) == nullptr);
    fuzz::require(again.host == both.host && again.port == both.port);
    if (six) {
      fuzz::require(parse_address(both.host, address) == nullptr);
      const std::string endpoint = endpoint_text({address, static_cast<asio::ip::port_type>(both.port)});
      fuzz::require(parse_host_and_port(endpoint, again) == nullptr);
    }
  } else {
    fuzz::require(*wrong != '\0');
    fuzz::require(both.host.empty() && both.port == 0);
  }
  return 0;
}

#if !defined(TUTTI_FUZZ)
TEST_CASE("addresses are understood or refused, whatever they are") { fuzz::replay("tcp_address"); }
#endif
