// SPDX-License-Identifier: BSL-1.0

// What strangers may send in place of a handshake: every frame is taken apart without a step beyond its end, nothing in
// it makes anybody read or keep more than there is to be read, and what is sound means the same when it is written
// again.

#include <tutti/transport/tcp/handshake.hpp>

#include <array>
#include <cstring>
#include <string>

#include "replay.hpp"

namespace {

using namespace tutti::detail;

template <std::size_t Bytes>
std::array<std::byte, Bytes> frame_of(fuzz::input& in) {
  std::array<std::byte, Bytes> frame{};
  std::size_t taken = 0;
  const std::uint8_t* const from = in.take(Bytes, taken);
  if (taken != 0) std::memcpy(frame.data(), from, taken);
  return frame;
}

void hello(fuzz::input& in) {
  const auto frame = frame_of<tcp_hello::bytes>(in);
  const tcp_hello read = tcp_hello::decode(frame.data());
  fuzz::require(tcp_hello::begins(frame.data()) == (read.magic == hello_magic));
  const auto written = read.encode();
  const tcp_hello again = tcp_hello::decode(written.data());
  fuzz::require(again.encode() == written);
  // All fields stand where they stood; what follows them is not looked at, and written as zero.
  const auto end = std::find_if(written.rbegin(), written.rend(), [](std::byte b) { return b != std::byte{}; }).base();
  fuzz::require(std::equal(written.begin(), end, frame.begin()));
  // One that does not belong is not taken for one that does.
  const tcp_credentials ours = tcp_credentials::of("job", "token");
  const bool same = std::memcmp(ours.bytes.data(), read.who.bytes.data(), ours.bytes.size()) == 0;
  fuzz::require(ours.equal(read.who) == same && read.who.equal(ours) == same);
}

void answer(fuzz::input& in) {
  const auto frame = frame_of<tcp_answer::bytes>(in);
  const tcp_answer read = tcp_answer::decode(frame.data());
  fuzz::require(read.encode() == tcp_answer::decode(read.encode().data()).encode());
  fuzz::require(read.text_bytes() <= tcp_answer::most_text);
  const std::string text(reinterpret_cast<const char*>(in.rest()), std::min(in.left(), read.text_bytes()));
  const tutti::failure reason = read.reason(text);
  fuzz::require(reason.text == text && reason.peer == read.peer);
  fuzz::require(reason.kind >= tutti::errc::usage && reason.kind <= tutti::errc::resource);
  const tcp_credentials ours = tcp_credentials::of("job", "token");
  fuzz::require(read.fits(ours) ==
                (read.magic == answer_magic && std::memcmp(read.job.data(), ours.bytes.data(), 16) == 0));
}

void member(fuzz::input& in) {
  const auto frame = frame_of<tcp_member_frame::bytes>(in);
  tcp_member read;
  if (!tcp_member_frame::decode(frame.data(), read)) return;
  fuzz::require(read.endpoint.port() != 0 && !read.endpoint.address().is_unspecified() &&
                !read.endpoint.address().is_multicast());
  std::array<std::byte, tcp_member_frame::bytes> written;
  tcp_member_frame::encode(read, written.data());
  tcp_member again;
  fuzz::require(tcp_member_frame::decode(written.data(), again));
  fuzz::require(again.endpoint == read.endpoint && again.host == read.host && again.network == read.network);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  switch (in.byte() % 3) {
    case 0:
      hello(in);
      break;
    case 1:
      answer(in);
      break;
    default:
      member(in);
  }
  return 0;
}

#if !defined(TUTTI_FUZZ)
TEST_CASE("frames of a handshake are taken apart, whatever they are") { fuzz::replay("tcp_handshake"); }
#endif
