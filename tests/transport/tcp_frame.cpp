// SPDX-License-Identifier: BSL-1.0

// The header of a frame on a data connection: its bytes, and which headers can be meant.

#include <tutti/transport/tcp/frame.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

using tutti::detail::encode;
using tutti::detail::sound;
using tutti::detail::tcp_frame_kind;
using tutti::detail::tcp_header;
using tutti::detail::tcp_lane_id;

TEST_CASE("a header is 32 bytes, little-endian") {
  std::array<std::byte, tcp_header::size> bytes{};
  bytes.fill(std::byte{0xff});
  encode({0x0102'0304'0506'0708, 0x1112'1314'1516'1718, tcp_lane_id::of(0x2122'2324, 0x3132), tcp_frame_kind::pause},
         bytes.data());
  const std::array<int, tcp_header::size> expected{8,    7,    6,    5,    4,    3, 2,    1,    0x18, 0x17, 0x16,
                                                   0x15, 0x14, 0x13, 0x12, 0x11, 2, 0x74, 0x32, 0x31, 0x24, 0x23,
                                                   0x22, 0x21, 0,    0,    0,    0, 0,    0,    0,    0};
  for (std::size_t i = 0; i < bytes.size(); ++i) CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
}

TEST_CASE("a header is decoded as it was encoded") {
  for (const auto kind : {tcp_frame_kind::message, tcp_frame_kind::pause, tcp_frame_kind::resume}) {
    for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX, std::uint64_t{1} << 40}) {
      const tcp_header header{number, ~number, number >> 16, kind};
      std::array<std::byte, tcp_header::size> bytes{};
      encode(header, bytes.data());
      CHECK(tutti::detail::decode_tcp_header(bytes.data()) == header);
    }
  }
}

TEST_CASE("only headers that can be meant are sound") {
  const auto most = tcp_header::most_lanes;
  CHECK(sound({0, 0, 0, tcp_frame_kind::message}));
  CHECK(sound({tcp_header::largest_payload, 7, most - 1, tcp_frame_kind::message}));
  CHECK(sound({0, 0, most - 1, tcp_frame_kind::pause}));
  CHECK(sound({0, 0, 0, tcp_frame_kind::resume}));
  CHECK_FALSE(sound({tcp_header::largest_payload + 1, 0, 0, tcp_frame_kind::message}));
  CHECK_FALSE(sound({UINT64_MAX, 0, 0, tcp_frame_kind::message}));
  CHECK_FALSE(sound({0, 0, most, tcp_frame_kind::message}));
  CHECK_FALSE(sound({0, 0, 0xffff, tcp_frame_kind::message}));
  const auto greatest = tcp_header::largest_group - 1;
  for (const std::uint32_t group : {1U, 77U, greatest}) {
    CHECK(sound({0, 0, tcp_lane_id::of(group, 0), tcp_frame_kind::message}));
    CHECK(sound({0, 0, tcp_lane_id::of(group, most - 1), tcp_frame_kind::resume}));
    CHECK_FALSE(sound({0, 0, tcp_lane_id::of(group, most), tcp_frame_kind::message}));
    CHECK(tcp_lane_id::group(tcp_lane_id::of(group, most)) == group);
    CHECK(tcp_lane_id::index(tcp_lane_id::of(group, most)) == most);
  }
  CHECK_FALSE(sound({0, 0, tcp_lane_id::of(greatest + 1, 0), tcp_frame_kind::message}));
  CHECK_FALSE(sound({0, 0, tcp_lane_id::of(UINT32_MAX, 0), tcp_frame_kind::message}));
  CHECK_FALSE(sound({1, 0, 0, tcp_frame_kind::pause}));
  CHECK_FALSE(sound({1, 0, 0, tcp_frame_kind::resume}));
  for (const int kind : {0, 1, 0x7400, 0x7404, 0xffff})
    CHECK_FALSE(sound({0, 0, 0, static_cast<tcp_frame_kind>(kind)}));
}

TEST_CASE("an unsound header is told with its values and both ranks") {
  const tutti::failure f = tutti::detail::unsound_header(2, 5, {1234, 0, 4096, static_cast<tcp_frame_kind>(77)});
  CHECK(f.kind == tutti::errc::peer_failed);
  CHECK(f.peer == 5);
  CHECK(f.text ==
        "rank 5 sent rank 2 a header that makes no sense: kind 77, lane 4096 (of 1024), 1234 bytes (at most "
        "281474976710656)");
  const auto lane = tcp_lane_id::of(7, 1024);
  CHECK(
      tutti::detail::unsound_header(0, 1, {0, 0, lane, tcp_frame_kind::message}).text ==
      "rank 1 sent rank 0 a header that makes no sense: kind 29697, lane 1024 (of 1024) of communicator 7, 0 bytes (at "
      "most 281474976710656)");
}
