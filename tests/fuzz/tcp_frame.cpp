// SPDX-License-Identifier: BSL-1.0

// The stream of one data connection, cut anyhow and asked for in any order: each message goes to where it was asked for
// and nowhere else, as a second reading of the same bytes says that knows nothing of lanes, memory or portions.

#include <tutti/transport/tcp/reader.hpp>

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "replay.hpp"

namespace {

using namespace tutti::detail;

// Of the whole group, and of communicators that this rank is in; it has left 1, and those from 4 on are to come.
constexpr std::uint64_t ids[] = {0, 1, 2, 3, tcp_lane_id::of(2, 0), tcp_lane_id::of(3, 5)};
constexpr unsigned lanes = std::size(ids);
constexpr std::uint32_t next_group = 4;

// Said once more, so that the two must agree.
bool may_be_meant(const tcp_header& header) {
  if (header.lane % 65536 > tcp_header::most_lanes - 1 || header.lane / 65536 > 0x7ffffffe) return false;
  if (header.kind == tcp_frame_kind::message) return header.bytes <= tcp_header::largest_payload;
  return (header.kind == tcp_frame_kind::pause || header.kind == tcp_frame_kind::resume) && header.bytes == 0;
}

// What the bytes are, read at once: the messages of each lane, until one makes no sense or is not whole.
struct reading {
  struct one {
    tcp_header header;
    std::vector<std::byte> payload;  // what there is of it
    bool whole;
  };
  std::deque<one> messages[lanes];
  bool sound = true;

  reading(const std::byte* at, std::size_t left) {
    std::set<std::uint64_t> to_come;
    while (left >= tcp_header::size) {
      const tcp_header header = decode_tcp_header(at);
      if (!may_be_meant(header)) {
        sound = false;
        return;
      }
      if (header.lane / 65536 >= next_group) to_come.insert(header.lane / 65536);
      if (to_come.size() > tcp_lane_table::most_to_come) {
        sound = false;
        return;
      }
      at += tcp_header::size;
      left -= tcp_header::size;
      const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(left, header.bytes));
      const auto lane = static_cast<std::size_t>(std::find(std::begin(ids), std::end(ids), header.lane) - ids);
      if (header.kind == tcp_frame_kind::message && lane < lanes)
        messages[lane].push_back({header, {at, at + there}, there == header.bytes});
      at += there;
      left -= there;
    }
  }
};

// The script that precedes the stream says what is asked for, and when: after how many bytes, for which lane.
struct request {
  unsigned after, lane, bytes, fingerprint;
};

struct asked {
  unsigned lane;
  std::vector<std::byte> memory;
  std::uint64_t fingerprint;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  std::vector<request> script(in.byte() % 16);
  for (request& r : script) {
    r.after = in.two_bytes() % 2048;
    r.lane = in.byte() % lanes;
    r.bytes = in.two_bytes() % 1024;
    r.fingerprint = in.byte();
  }
  const unsigned portion = 1 + in.byte();
  // Exactly as long as what it reads, so that a sanitizer sees every step beyond.
  const std::vector<std::byte> stream(reinterpret_cast<const std::byte*>(in.rest()),
                                      reinterpret_cast<const std::byte*>(in.rest()) + in.left());

  const reading right(stream.data(), stream.size());
  std::size_t next[lanes] = {};  // message of that lane
  tcp_reader reader;
  reader.most_kept = 512;
  tcp_group_numbers numbers;
  for (std::uint32_t number = 1; number < next_group; ++number) numbers.add(number);
  numbers.remove(1);
  reader.know(numbers);
  tcp_output output;
  std::optional<asked> waiting[lanes];
  std::size_t fed = 0;
  bool over = false;  // a message was refused: a group fails then

  const auto look = [&](unsigned l) {
    if (!waiting[l]) return;
    const tcp_lane_end& end = reader.lane(ids[l]);
    if (!end.arrived) return;
    fuzz::require(next[l] < right.messages[l].size());
    const reading::one& meant = right.messages[l][next[l]++];
    if (end.refused) {
      fuzz::require(end.came == meant.header);
      fuzz::require(meant.header.bytes != waiting[l]->memory.size() ||
                    meant.header.fingerprint != waiting[l]->fingerprint);
      over = true;
      return;
    }
    fuzz::require(meant.whole && meant.header.fingerprint == waiting[l]->fingerprint);
    fuzz::require(meant.payload == waiting[l]->memory);
    reader.forget(ids[l]);
    waiting[l].reset();
  };
  const auto ask_what_is_due = [&] {
    for (request& r : script) {
      if (over || r.after > fed || r.lane == lanes || waiting[r.lane]) continue;
      const unsigned l = std::exchange(r.lane, lanes);
      waiting[l].emplace(asked{l, std::vector<std::byte>(std::max(1U, r.bytes)), r.fingerprint});
      waiting[l]->memory.resize(r.bytes);  // never null
      reader.ask(ids[l], waiting[l]->memory.data(), r.bytes, r.fingerprint, output);
      look(l);
    }
  };
  ask_what_is_due();
  while (fed < stream.size() && !over && !reader.corrupt() && !reader.abandoned()) {
    const std::size_t offered = std::min<std::size_t>(portion, stream.size() - fed);
    if (std::byte* const to = reader.direct(); to != nullptr) {
      // As the connection does it: read straight to where it goes.
      const std::size_t part = std::min(offered, reader.left());
      std::memcpy(to, stream.data() + fed, part);
      reader.filled(part);
      fed += part;
    } else {
      const std::size_t taken = reader.feed(stream.data() + fed, offered, nullptr, output);
      fuzz::require(taken <= offered);
      fuzz::require(taken == offered || reader.corrupt());
      fed += taken;
    }
    for (unsigned l = 0; l < lanes; ++l) look(l);
    ask_what_is_due();
  }
  if (over) return 0;
  fuzz::require(!reader.abandoned());
  fuzz::require(reader.corrupt() == !right.sound);
  // Nothing is missing that has come whole and is asked for.
  for (unsigned l = 0; l < lanes; ++l) {
    look(l);
    if (waiting[l] && next[l] < right.messages[l].size()) fuzz::require(over || !right.messages[l][next[l]].whole);
    // What is kept has been sent: nothing is made up.
    fuzz::require(reader.lane(ids[l]).kept.size() <= stream.size());
  }
  // Of communicators that this rank leaves nothing remains, and nothing of others is lost.
  const std::size_t known = reader.lanes().parts();
  fuzz::require(known <= 2 + tcp_lane_table::most_to_come);
  const std::size_t kept = reader.lane(0).kept.size();
  for (const std::uint32_t group : {2U, 3U}) {
    numbers.remove(group);
    reader.leave(group, output);
    fuzz::require(reader.find(tcp_lane_id::of(group, 0)) == nullptr &&
                  reader.find(tcp_lane_id::of(group, 5)) == nullptr);
  }
  fuzz::require(reader.lanes().parts() == known - 2);
  fuzz::require(reader.lane(0).kept.size() == kept);
  return 0;
}

#if !defined(TUTTI_FUZZ)
TEST_CASE("each message of a stream goes where it was asked for, whatever the stream is") { fuzz::replay("tcp_frame"); }
#endif
