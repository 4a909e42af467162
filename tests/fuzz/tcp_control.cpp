// SPDX-License-Identifier: BSL-1.0

// What ranks tell each other about their group, cut anyhow: it is understood, and means the same when written again, or
// it is refused; and the arbiter, told anything by anybody, tells only ranks that there are, and decides once.

#include <tutti/transport/tcp/arbiter.hpp>
#include <tutti/transport/tcp/control_message.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "replay.hpp"

namespace {

using namespace tutti::detail;

constexpr int ranks = 4;

struct told {
  std::vector<std::uint64_t> tickets;
  std::string verdicts[ranks];
  int count = 0;
  void tell(int rank, const control_message& m) {
    fuzz::require(rank >= 0 && rank < ranks);
    fuzz::require(++count < 1'000'000);
    std::string written;
    write_control(written, m);
    fuzz::require(written.size() <= control_frame::head_bytes + control_frame::most_body);
    if (m.kind != control_kind::verdict || m.group != 0) return;  // of a communicator there may be several
    fuzz::require(verdicts[rank].empty());
    verdicts[rank] = written;
  }
  void expire(std::uint64_t ticket, int) { tickets.push_back(ticket); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const unsigned portion = 1 + in.byte();
  unsigned who = in.byte();
  const std::vector<char> bytes(reinterpret_cast<const char*>(in.rest()),
                                reinterpret_cast<const char*>(in.rest()) + in.left());
  told out;
  tcp_arbiter<told> arbiter(ranks, out);
  control_stream stream;
  std::size_t frames = 0;
  for (std::size_t at = 0; at < bytes.size(); at += portion) {
    const std::string_view part(bytes.data() + at, std::min<std::size_t>(portion, bytes.size() - at));
    const bool sound = stream.take(part, [&](control_message& m) {
      ++frames;
      fuzz::require(m.text.size() <= control_frame::most_text);
      fuzz::require(m.calls == nullptr || m.calls->size() <= recorded_calls::most);
      std::string written;
      write_control(written, m);
      const auto again =
          read_control(static_cast<std::uint32_t>(m.kind), std::string_view(written).substr(control_frame::head_bytes));
      fuzz::require(again.has_value());
      std::string twice;
      write_control(twice, *again);
      fuzz::require(twice == written);
      // Who says it follows from what is said, so that all do in turn.
      who = who * 5 + 1;
      const int from = static_cast<int>(who / 8 % ranks);
      if (!arbiter.receive(from, m)) arbiter.gone(from, spoke_nonsense(from));
      if (who % 7 == 0 && !out.tickets.empty()) arbiter.expired(out.tickets.back());
      return true;
    });
    if (!sound) break;
  }
  // Each frame has a head and all its fixed fields.
  fuzz::require(frames * (control_frame::head_bytes + control_frame::fixed_bytes) <= bytes.size());
  for (const std::uint64_t ticket : out.tickets) arbiter.expired(ticket);
  for (int rank = 0; rank < ranks; ++rank) {
    fuzz::require(out.verdicts[rank].empty() == !arbiter.decided());
    fuzz::require(out.verdicts[rank] == out.verdicts[0]);
  }
  return 0;
}

#if !defined(TUTTI_FUZZ)
TEST_CASE("what ranks tell each other is understood or refused, whatever it is") { fuzz::replay("tcp_control"); }
#endif
