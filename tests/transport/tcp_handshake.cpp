// SPDX-License-Identifier: BSL-1.0

// What travels at the start: the same bytes on every machine, and harmless whatever they are.

#include <tutti/transport/tcp/handshake.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace tutti::detail;
using kinds = tcp_answer::kinds;

namespace {

tcp_hello some_hello() {
  tcp_hello h;
  h.who = tcp_credentials::of("job", "token");
  h.kind = tcp_hello::kinds::data;
  h.rank = 0x01020304;
  h.size = 0x11121314;
  h.to = 0x21222324;
  h.layout = 0x3132333435363738;
  for (std::size_t i = 0; i < h.session.size(); ++i) h.session[i] = static_cast<std::byte>(0x40 + i);
  return h;
}
template <std::size_t Size>
std::string part(const std::array<std::byte, Size>& frame, std::size_t from, std::size_t size) {
  return {reinterpret_cast<const char*>(frame.data()) + from, size};
}

}  // namespace

TEST_CASE("numbers are written with the lowest byte first") {
  std::array<std::byte, 8> bytes{};
  put_little(bytes.data(), std::uint64_t{0x0102030405060708});
  CHECK(part(bytes, 0, 8) == "\x08\x07\x06\x05\x04\x03\x02\x01");
  CHECK(get_little<std::uint64_t>(bytes.data()) == 0x0102030405060708);
  CHECK(get_little<std::uint32_t>(bytes.data() + 4) == 0x01020304);
  CHECK(get_little<std::uint16_t>(bytes.data()) == 0x0708);
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x80}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    put_little(bytes.data(), value);
    CHECK(get_little<std::uint64_t>(bytes.data()) == value);
  }
}

TEST_CASE("a hello is these bytes") {
  const auto frame = some_hello().encode();
  CHECK(frame.size() == 256);
  CHECK(part(frame, 0, 8) == "tutcp1\r\n");
  CHECK(part(frame, 8, 4) == "\x04\x03\x02\x01");
  CHECK(get_little<std::uint32_t>(frame.data() + 12) == tcp_version);
  CHECK(get_little<std::uint64_t>(frame.data() + 16) == tutti::detail::job_hash::of("job").words[0]);
  CHECK(get_little<std::uint64_t>(frame.data() + 24) == tutti::detail::job_hash::of("job").words[1]);
  CHECK(part(frame, 32, 64) == "token" + std::string(59, '\0'));
  CHECK(part(frame, 96, 4) == std::string("\x02\0\0\0", 4));
  CHECK(part(frame, 100, 4) == "\x04\x03\x02\x01");
  CHECK(part(frame, 104, 4) == "\x14\x13\x12\x11");
  CHECK(part(frame, 108, 4) == "\x24\x23\x22\x21");
  CHECK(part(frame, 112, 8) == "\x38\x37\x36\x35\x34\x33\x32\x31");
  CHECK(part(frame, 120, 16) == "@ABCDEFGHIJKLMNO");
  CHECK(part(frame, 136, 120) == std::string(120, '\0'));
}

TEST_CASE("a hello is read as it was written") {
  const tcp_hello h = some_hello();
  const auto frame = h.encode();
  const tcp_hello read = tcp_hello::decode(frame.data());
  CHECK(tcp_hello::begins(frame.data()));
  CHECK(read.encode() == frame);
  CHECK(read.byte_order == h.byte_order);
  CHECK(read.who.equal(h.who));
  CHECK(read.kind == h.kind);
  CHECK(read.rank == h.rank);
  CHECK(read.size == h.size);
  CHECK(read.to == h.to);
  CHECK(read.layout == h.layout);
  CHECK(read.session == h.session);
  const auto wrong = tcp_answer(kinds::heard, h.who).encode();
  CHECK_FALSE(tcp_hello::begins(wrong.data()));
}

TEST_CASE("negative numbers travel") {
  tcp_hello h;
  h.rank = -1;
  h.size = -2'147'483'647 - 1;
  const tcp_hello read = tcp_hello::decode(h.encode().data());
  CHECK(read.rank == -1);
  CHECK(read.size == -2'147'483'647 - 1);
}

TEST_CASE("F16: one that has another order of bytes reads another number") {
  std::array<unsigned char, 4> swapped{};
  const std::uint32_t mark = native_byte_order;
  std::memcpy(swapped.data(), &mark, 4);
  CHECK(swapped == std::array<unsigned char, 4>{4, 3, 2, 1});  // on every machine, so that its value differs
}

TEST_CASE("job and token must be equal in every bit") {
  const tcp_credentials right = tcp_credentials::of("job", "token");
  CHECK(right.equal(tcp_credentials::of("job", "token")));
  CHECK_FALSE(right.equal(tcp_credentials::of("job", "")));
  CHECK_FALSE(right.equal(tcp_credentials::of("job", "token2")));
  CHECK_FALSE(right.equal(tcp_credentials::of("job ", "token")));
  CHECK_FALSE(right.equal(tcp_credentials::of("", "")));
  for (std::size_t bit = 0; bit < 8 * right.bytes.size(); ++bit) {
    tcp_credentials other = right;
    other.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CAPTURE(bit);
    CHECK_FALSE(right.equal(other));
    CHECK_FALSE(other.equal(right));
  }
  // The last byte of the longest token counts.
  const std::string longest(64, 'x');
  std::string other = longest;
  other.back() = 'y';
  CHECK_FALSE(tcp_credentials::of("job", longest).equal(tcp_credentials::of("job", other)));
}

TEST_CASE("answers are read as they were written, and only those of the job fit") {
  const tcp_credentials who = tcp_credentials::of("job", "token");
  tcp_answer a(kinds::welcome, who);
  a.error = 7;
  a.peer = -3;
  a.count = 0xF1F2F3F4;
  a.remaining = ~std::uint64_t{0};
  a.session[15] = std::byte{9};
  const auto frame = a.encode();
  const tcp_answer read = tcp_answer::decode(frame.data());
  CHECK(read.encode() == frame);
  CHECK(read.kind == kinds::welcome);
  CHECK(read.peer == -3);
  CHECK(read.remaining == a.remaining);
  CHECK(read.session == a.session);
  CHECK(read.fits(who));
  CHECK_FALSE(read.fits(tcp_credentials::of("another", "token")));
  CHECK_FALSE(tcp_answer{}.fits(who));
  // What it is, but nobody's: an echo of our own hello is no answer.
  const auto echo = some_hello().encode();
  CHECK_FALSE(tcp_answer::decode(echo.data()).fits(tcp_credentials::of("job", "token")));
}

TEST_CASE("D3: a refusal has at most 1000 bytes of text, whatever it claims") {
  const tcp_credentials who = tcp_credentials::of("job", "token");
  const tutti::failure reason{tutti::errc::timed_out, 3, "why"};
  tcp_answer refusal = tcp_answer::decode(tcp_answer::refusal(reason, who).encode().data());
  CHECK(refusal.kind == kinds::refused);
  CHECK(refusal.text_bytes() == 3);
  CHECK(refusal.reason("why").kind == tutti::errc::timed_out);
  CHECK(refusal.reason("why").peer == 3);
  CHECK(refusal.reason("why").text == "why");
  CHECK(tcp_answer::refusal({tutti::errc::usage, 0, std::string(5000, 'x')}, who).text_bytes() == 1000);
  refusal.count = 0xFFFFFFFF;
  CHECK(refusal.text_bytes() == 1000);
  for (const std::uint32_t error : {0u, 6u, 0xFFFFFFFFu}) {
    refusal.error = error;
    CHECK(refusal.reason("why").kind == tutti::errc::peer_failed);
  }
}

TEST_CASE("C9: where a rank listens travels, IPv4 and IPv6") {
  for (const char* const text : {"192.0.2.1", "::1", "fd00::abcd:1"}) {
    tcp_member m;
    m.endpoint = {asio::ip::make_address(text), 65535};
    m.host = 0x0102030405060708;
    m.network = ~std::uint64_t{1};
    std::array<std::byte, tcp_member_frame::bytes> frame;
    frame.fill(std::byte{0xEE});
    tcp_member_frame::encode(m, frame.data());
    tcp_member read;
    CHECK(tcp_member_frame::decode(frame.data(), read));
    CHECK(read.endpoint == m.endpoint);
    CHECK(read.host == m.host);
    CHECK(read.network == m.network);
  }
}

TEST_CASE("D3: nobody listens nowhere, at port 0, or at an address of no kind") {
  tcp_member m;
  m.endpoint = {asio::ip::make_address("192.0.2.1"), 80};
  std::array<std::byte, tcp_member_frame::bytes> frame{};
  tcp_member read;
  const auto with_number = [&](std::size_t at, std::uint32_t value) {
    tcp_member_frame::encode(m, frame.data());
    put_little(frame.data() + at, value);
    return tcp_member_frame::decode(frame.data(), read);
  };
  CHECK(with_number(16, 4));
  for (const std::uint32_t family : {0u, 5u, 0xFFFFFFFFu}) CHECK_FALSE(with_number(16, family));
  CHECK(with_number(20, 65535));
  for (const std::uint32_t port : {0u, 65536u, 0xFFFFFFFFu}) CHECK_FALSE(with_number(20, port));
  for (const char* const nowhere : {"0.0.0.0", "::", "224.0.0.1", "ff02::1"}) {
    m.endpoint.address(asio::ip::make_address(nowhere));
    tcp_member_frame::encode(m, frame.data());
    CHECK_FALSE(tcp_member_frame::decode(frame.data(), read));
  }
}

TEST_CASE("D3: random bytes are never ours") {
  std::mt19937 random(4711);
  const tcp_credentials who = tcp_credentials::of("job", "token");
  std::vector<std::byte> bytes(tcp_hello::bytes);
  for (int times = 0; times < 2000; ++times) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    CHECK_FALSE(tcp_hello::begins(bytes.data()));
    CHECK_FALSE(tcp_hello::decode(bytes.data()).who.equal(who));
    const tcp_answer answer = tcp_answer::decode(bytes.data());
    CHECK_FALSE(answer.fits(who));
    CHECK(answer.text_bytes() <= tcp_answer::most_text);
    tcp_member member;
    tcp_member_frame::decode(bytes.data(), member);
  }
}
