// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/message.hpp>
#include <tutti/transport/tcp/handshake.hpp>
#include <tutti/transport/tcp/settings.hpp>

#include <string>

namespace tutti::detail {

/// Why who says that hello cannot be a rank of the job of so many ranks: in what it is not like rank 0, or which rank
/// it says that it is. Empty if it can be.
inline std::string objection(const tcp_hello& hello, const tcp_settings& settings, int size) {
  const auto differ = [](const char* what, auto theirs, auto ours) {
    return (message() << "has " << what << " " << theirs << ", but rank 0 has " << ours).str();
  };
  if (hello.version != settings.version) return differ("version", hello.version, settings.version);
  if (hello.byte_order != settings.byte_order) return differ("byte order", hello.byte_order, settings.byte_order);
  if (hello.layout != settings.layout) return differ("layout of data", hello.layout, settings.layout);
  if (hello.size != size) return differ("size", hello.size, size);
  if (hello.rank < 1 || hello.rank >= size)
    return message() << "is none of the ranks from 1 to " << size - 1 << " that rank 0 waits for";
  return {};
}

}  // namespace tutti::detail
