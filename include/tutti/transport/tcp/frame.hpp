// SPDX-License-Identifier: BSL-1.0
#pragma once

// What stands on a data connection before each payload.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

enum class tcp_frame_kind : std::uint32_t {
  message = 0x7475'0001,  ///< a payload follows
  pause = 0x7475'0002,    ///< keep the messages of that lane back until `resume`
  resume = 0x7475'0003
};

/// The header of a frame: 24 bytes, little-endian.
struct tcp_header {
  std::uint64_t bytes = 0;  ///< of the payload that follows
  std::uint64_t fingerprint = 0;
  std::uint32_t lane = 0;
  tcp_frame_kind kind = tcp_frame_kind::message;

  friend bool operator==(const tcp_header&, const tcp_header&) = default;

  static constexpr std::size_t size = 24;
  /// Of one connection.
  static constexpr std::uint32_t most_lanes = 1024;
  static constexpr std::uint64_t largest_payload = std::uint64_t{1} << 48;
};

template <class Integer>
constexpr Integer little_endian(Integer value) {
  if constexpr (std::endian::native == std::endian::little) {
    return value;
  } else if constexpr (sizeof(Integer) == 8) {
    return __builtin_bswap64(value);
  } else {
    return __builtin_bswap32(value);
  }
}

inline void encode(const tcp_header& header, std::byte* to) noexcept {
  const std::uint64_t bytes = little_endian(header.bytes);
  const std::uint64_t fingerprint = little_endian(header.fingerprint);
  const std::uint32_t lane = little_endian(header.lane);
  const std::uint32_t kind = little_endian(static_cast<std::uint32_t>(header.kind));
  std::memcpy(to, &bytes, 8);
  std::memcpy(to + 8, &fingerprint, 8);
  std::memcpy(to + 16, &lane, 4);
  std::memcpy(to + 20, &kind, 4);
}

/// What the 24 bytes say, whatever it is: `sound` tells whether a peer can have meant it.
inline tcp_header decode_tcp_header(const std::byte* from) noexcept {
  tcp_header header;
  std::uint32_t kind = 0;
  std::memcpy(&header.bytes, from, 8);
  std::memcpy(&header.fingerprint, from + 8, 8);
  std::memcpy(&header.lane, from + 16, 4);
  std::memcpy(&kind, from + 20, 4);
  header.bytes = little_endian(header.bytes);
  header.fingerprint = little_endian(header.fingerprint);
  header.lane = little_endian(header.lane);
  header.kind = static_cast<tcp_frame_kind>(little_endian(kind));
  return header;
}

inline bool sound(const tcp_header& header) noexcept {
  if (header.lane >= tcp_header::most_lanes) return false;
  switch (header.kind) {
    case tcp_frame_kind::message:
      return header.bytes <= tcp_header::largest_payload;
    case tcp_frame_kind::pause:
    case tcp_frame_kind::resume:
      return header.bytes == 0;
  }
  return false;
}

/// A peer has sent a header that cannot be meant.
[[gnu::noinline, gnu::cold]] inline failure unsound_header(int rank, int peer, const tcp_header& header) {
  return {errc::peer_failed, peer,
          message() << "rank " << peer << " sent rank " << rank << " a header that makes no sense: kind "
                    << static_cast<std::uint32_t>(header.kind) << ", lane " << header.lane << " (of "
                    << tcp_header::most_lanes << "), " << header.bytes << " bytes (at most "
                    << tcp_header::largest_payload << ")"};
}

}  // namespace tutti::detail
