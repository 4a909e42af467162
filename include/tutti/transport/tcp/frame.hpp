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

enum class tcp_frame_kind : std::uint16_t {
  message = 0x7401,  ///< a payload follows
  pause = 0x7402,    ///< keep the messages of that lane back until `resume`
  resume = 0x7403
};

/// A lane of a connection: that of so many in the communicator of that number, 0 for the whole group, whose lanes are
/// therefore the smallest numbers.
struct tcp_lane_id {
  static constexpr int index_bits = 16;
  static constexpr std::uint64_t of(std::uint32_t group, std::uint32_t index) {
    return std::uint64_t{group} << index_bits | index;
  }
  static constexpr std::uint32_t group(std::uint64_t id) { return static_cast<std::uint32_t>(id >> index_bits); }
  static constexpr std::uint32_t index(std::uint64_t id) { return static_cast<std::uint32_t>(id & 0xffff); }
};

/// The header of a frame: 32 bytes, little-endian; the kind stands in two of them, before the lane in six, and the last
/// eight are 0. So many because large vectors begin 16 bytes into a page, and the kernel often copies a frame to the
/// beginning of one: if the payload then lies 1 to 15 bytes further in its page than the vector does in its own, as
/// after 24 bytes, an AMD EPYC copies it at a fifteenth of the speed.
struct tcp_header {
  std::uint64_t bytes = 0;  ///< of the payload that follows
  std::uint64_t fingerprint = 0;
  std::uint64_t lane = 0;  ///< a `tcp_lane_id`
  tcp_frame_kind kind = tcp_frame_kind::message;

  friend bool operator==(const tcp_header&, const tcp_header&) = default;

  static constexpr std::size_t size = 32;
  /// Of one communicator.
  static constexpr std::uint32_t most_lanes = 1024;
  static constexpr std::uint32_t largest_group = INT32_MAX;
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
  const std::uint64_t rest = little_endian(header.lane << 16 | static_cast<std::uint64_t>(header.kind));
  std::memcpy(to, &bytes, 8);
  std::memcpy(to + 8, &fingerprint, 8);
  std::memcpy(to + 16, &rest, 8);
  std::memset(to + 24, 0, 8);
}

/// What the 32 bytes say, whatever it is: `sound` tells whether a peer can have meant it.
inline tcp_header decode_tcp_header(const std::byte* from) noexcept {
  tcp_header header;
  std::uint64_t rest = 0;
  std::memcpy(&header.bytes, from, 8);
  std::memcpy(&header.fingerprint, from + 8, 8);
  std::memcpy(&rest, from + 16, 8);
  header.bytes = little_endian(header.bytes);
  header.fingerprint = little_endian(header.fingerprint);
  rest = little_endian(rest);
  header.lane = rest >> 16;
  header.kind = static_cast<tcp_frame_kind>(rest & 0xffff);
  return header;
}

inline bool sound(const tcp_header& header) noexcept {
  if (header.lane >= tcp_header::most_lanes) [[unlikely]]
    if (tcp_lane_id::index(header.lane) >= tcp_header::most_lanes ||
        header.lane >= tcp_lane_id::of(tcp_header::largest_group, 0))
      return false;
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
  message text;
  text << "rank " << peer << " sent rank " << rank << " a header that makes no sense: kind "
       << static_cast<unsigned>(header.kind) << ", lane " << tcp_lane_id::index(header.lane) << " (of "
       << tcp_header::most_lanes << ")";
  if (tcp_lane_id::group(header.lane) != 0) text << " of communicator " << tcp_lane_id::group(header.lane);
  text << ", " << header.bytes << " bytes (at most " << tcp_header::largest_payload << ")";
  return {errc::peer_failed, peer, text};
}

}  // namespace tutti::detail
