// SPDX-License-Identifier: BSL-1.0
#pragma once

// What two ends of a new connection say to each other. Everything has a fixed size, whatever a stranger claims.

#include <tutti/core/error.hpp>
#include <tutti/transport/job_hash.hpp>
#include <tutti/transport/tcp/address.hpp>
#include <tutti/transport/tcp/little_endian.hpp>
#include <tutti/transport/tcp/membership.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti::detail {

/// Changes whenever anything that is sent does.
inline constexpr std::uint32_t tcp_version = 3;
/// What elements look like to this program, beside the order of their bytes.
inline constexpr std::uint64_t tcp_layout = sizeof(char*) * 100 + sizeof(long) * 10 + sizeof(long double) / 16;
/// Sent as it lies in memory: a rank with another order of bytes reads another number.
inline constexpr std::uint32_t native_byte_order = std::endian::native == std::endian::little ? 0x01020304 : 0x04030201;

/// The first eight bytes of a connection, and of an answer.
inline constexpr std::uint64_t hello_magic = 0x0A0D317063747574ULL;
inline constexpr std::uint64_t answer_magic = 0x0A0D327063747574ULL;

/// Compares in a time that does not depend on what differs.
inline bool equal_in_constant_time(const std::byte* a, const std::byte* b, std::size_t size) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < size; ++i) {
    difference |= std::to_integer<unsigned>(a[i] ^ b[i]);
    asm volatile("" : "+r"(difference));  // or the compiler might stop at the first one
  }
  return difference == 0;
}

/// Who belongs to a job: what both ends of a connection must know.
struct tcp_credentials {
  static constexpr std::size_t job_size = 16;
  static constexpr std::size_t token_size = 64;
  std::array<std::byte, job_size + token_size> bytes{};

  static tcp_credentials of(std::string_view job, std::string_view token) {
    tcp_credentials made;
    const job_hash hash = job_hash::of(job);
    frame_writer(made.bytes.data())
        .number(hash.words[0])
        .number(hash.words[1])
        .bytes(token.data(), token.size() < token_size ? token.size() : token_size);
    return made;
  }
  /// Both are compared whole, in constant time.
  bool equal(const tcp_credentials& other) const {
    return equal_in_constant_time(bytes.data(), other.bytes.data(), bytes.size());
  }
  bool same_job(const std::array<std::byte, job_size>& job) const {
    return equal_in_constant_time(bytes.data(), job.data(), job_size);
  }
};

/// What who connects says first. Where its fields are, up to `rank`, and how long it is stay the same in every version.
struct tcp_hello {
  static constexpr std::size_t bytes = 256;
  enum class kinds : std::uint32_t {
    join = 1,  ///< to rank 0, at the start
    data       ///< to any rank, once the start is over
  };

  std::uint64_t magic = hello_magic;
  std::uint32_t byte_order = native_byte_order;
  std::uint32_t version = tcp_version;
  tcp_credentials who;
  kinds kind = kinds::join;
  std::int32_t rank = 0;  ///< of who connects
  std::int32_t size = 1;
  std::int32_t to = 0;  ///< the rank that is meant
  std::uint64_t layout = tcp_layout;
  std::array<std::byte, 16> session{};  ///< of a data connection

  std::array<std::byte, bytes> encode() const {
    std::array<std::byte, bytes> frame{};
    fields(*this, frame_writer(frame.data()));
    return frame;
  }
  static tcp_hello decode(const std::byte* frame) {
    tcp_hello hello;
    fields(hello, frame_reader(frame));
    return hello;
  }
  /// Whether the first eight bytes are those of a hello.
  static bool begins(const std::byte* frame) { return get_little<std::uint64_t>(frame) == hello_magic; }

 private:
  template <class Self, class Frame>
  static void fields(Self& hello, Frame&& frame) {
    frame.number(hello.magic)
        .number(hello.byte_order)
        .number(hello.version)
        .bytes(hello.who.bytes.data(), hello.who.bytes.size())
        .number(hello.kind)
        .number(hello.rank)
        .number(hello.size)
        .number(hello.to)
        .number(hello.layout)
        .bytes(hello.session.data(), hello.session.size());
  }
};

/// Everything that is said after that.
struct tcp_answer {
  static constexpr std::size_t bytes = 64;
  static constexpr std::size_t most_text = 1000;
  enum class kinds : std::uint32_t {
    heard = 1,  ///< by rank 0: you belong here; where do you listen? It waits `remaining` ms for all to come
    here,       ///< to rank 0: here; a `tcp_member` follows
    welcome,    ///< by rank 0: all have come; `count` of `tcp_member` follow
    refused,    ///< by either: it is all over; `count` bytes of text follow, at most `most_text`
    accepted,   ///< of a data connection: this one it is
    yield       ///< of a data connection: no, wait for mine
  };

  std::uint64_t magic = answer_magic;
  kinds kind{};
  std::uint32_t error = 0;
  std::int32_t peer = -1;
  std::uint32_t count = 0;
  std::uint64_t remaining = 0;
  std::array<std::byte, 16> session{};
  std::array<std::byte, 16> job{};

  tcp_answer() = default;
  tcp_answer(kinds what, const tcp_credentials& who) : kind(what) { std::memcpy(job.data(), who.bytes.data(), 16); }
  static tcp_answer refusal(const failure& reason, const tcp_credentials& who) {
    tcp_answer made(kinds::refused, who);
    made.error = static_cast<std::uint32_t>(reason.kind);
    made.peer = reason.peer;
    made.count = static_cast<std::uint32_t>(reason.text.size() < most_text ? reason.text.size() : most_text);
    return made;
  }

  std::array<std::byte, bytes> encode() const {
    std::array<std::byte, bytes> frame{};
    fields(*this, frame_writer(frame.data()));
    return frame;
  }
  static tcp_answer decode(const std::byte* frame) {
    tcp_answer answer;
    fields(answer, frame_reader(frame));
    return answer;
  }
  /// Whether it is one of somebody of this job.
  bool fits(const tcp_credentials& who) const { return magic == answer_magic && who.same_job(job); }
  /// How many bytes of text to read after a refusal.
  std::size_t text_bytes() const { return count < most_text ? count : most_text; }
  failure reason(std::string_view text) const {
    const bool known =
        error >= static_cast<std::uint32_t>(errc::usage) && error <= static_cast<std::uint32_t>(errc::resource);
    return {known ? static_cast<errc>(error) : errc::peer_failed, peer, std::string(text)};
  }

 private:
  template <class Self, class Frame>
  static void fields(Self& answer, Frame&& frame) {
    frame.number(answer.magic)
        .number(answer.kind)
        .number(answer.error)
        .number(answer.peer)
        .number(answer.count)
        .number(answer.remaining)
        .bytes(answer.session.data(), answer.session.size())
        .bytes(answer.job.data(), answer.job.size());
  }
};

/// How a `tcp_member` travels.
struct tcp_member_frame {
  static constexpr std::size_t bytes = 48;

  static void encode(const tcp_member& member, std::byte* frame) {
    std::array<unsigned char, 16> address{};
    const asio::ip::address& a = member.endpoint.address();
    if (a.is_v6())
      address = a.to_v6().to_bytes();
    else
      std::memcpy(address.data(), a.to_v4().to_bytes().data(), 4);
    std::memset(frame, 0, bytes);
    frame_writer(frame)
        .bytes(address.data(), address.size())
        .number(std::uint32_t{a.is_v6() ? 6u : 4u})
        .number(std::uint32_t{member.endpoint.port()})
        .number(member.host)
        .number(member.network)
        .number(member.memory);
  }
  /// False if it is none that somebody could listen at.
  static bool decode(const std::byte* frame, tcp_member& member) {
    std::array<unsigned char, 16> address{};
    std::uint32_t family = 0;
    std::uint32_t port = 0;
    frame_reader(frame)
        .bytes(address.data(), address.size())
        .number(family)
        .number(port)
        .number(member.host)
        .number(member.network)
        .number(member.memory);
    asio::ip::address a;
    if (family == 6)
      a = asio::ip::address_v6(address);
    else
      a = asio::ip::address_v4({address[0], address[1], address[2], address[3]});
    member.endpoint = {a, static_cast<asio::ip::port_type>(port)};
    return (family == 4 || family == 6) && port >= 1 && port <= 65535 && !a.is_unspecified() && !a.is_multicast();
  }
};

}  // namespace tutti::detail
