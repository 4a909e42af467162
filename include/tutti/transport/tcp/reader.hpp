// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/backlog.hpp>
#include <tutti/transport/tcp/frame.hpp>
#include <tutti/transport/tcp/output.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// What one connection knows of one lane.
struct tcp_lane_end {
  // Of what comes in.
  std::byte* to = nullptr;  // where the message goes that is asked for; null if none is
  std::uint64_t bytes = 0;  // its size
  std::uint64_t fingerprint = 0;
  bool arrived = false;
  bool seen = false;     // it has arrived, and whoever asked for it knows
  bool refused = false;  // what came is not what was asked for; `came` says what it was
  bool pausing = false;  // the peer has been asked to pause
  tcp_header came;
  tcp_backlog kept;  // headers and payloads of what was not asked for yet
  // Of what goes out.
  bool held = false;         // the peer has asked to pause
  std::uint32_t unsent = 0;  // frames that wait to be written

  bool awaits() const { return to != nullptr && !arrived; }
  bool fits(const tcp_header& header) const { return header.bytes == bytes && header.fingerprint == fingerprint; }
};

/// Takes the bytes of one connection apart, in whatever portions they come: payloads go where they are asked for, or
/// are kept.
class tcp_reader {
 public:
  std::size_t most_kept = std::size_t{512} << 10;  // of one lane, before the peer is asked to pause

  tcp_reader() = default;
  tcp_reader(const tcp_reader&) = delete;
  tcp_reader& operator=(const tcp_reader&) = delete;
  ~tcp_reader() {
    for (tcp_lane_end* const l : lanes_) delete l;
  }

  /// Stays where it is.
  tcp_lane_end& lane(std::uint32_t index) {
    if (index >= lanes_.size() || lanes_[index] == nullptr) [[unlikely]]
      add(index);
    return *lanes_[index];
  }
  /// Null if nothing is known of it.
  const tcp_lane_end* find(std::uint32_t index) const { return index < lanes_.size() ? lanes_[index] : nullptr; }
  tcp_lane_end* find(std::uint32_t index) { return index < lanes_.size() ? lanes_[index] : nullptr; }
  bool held(std::uint32_t index) const {
    const tcp_lane_end* const l = find(index);
    return l != nullptr && l->held;
  }

  /// Messages that are asked for and have not come, and those that have come and nobody has seen yet.
  int awaited() const { return awaited_; }
  int unseen() const { return unseen_; }
  /// No frame has come in part.
  bool between_frames() const { return left_ == 0 && header_bytes_ == 0; }
  /// What comes next may be the message that is asked for there.
  bool at_start_of(const tcp_lane_end& l) const { return between_frames() && l.awaits() && l.kept.size() == 0; }
  /// The last header made no sense: nothing more can be understood.
  bool corrupt() const { return corrupt_; }
  bool abandoned() const { return abandoned_; }
  const tcp_header& last_header() const { return header_; }

  /// Asks for the next message of a lane. What of it was kept is taken at once.
  void ask(std::uint32_t index, std::byte* to, std::size_t bytes, std::uint64_t fingerprint, tcp_output& out) {
    tcp_lane_end& l = lane(index);
    l.to = to;
    l.bytes = bytes;
    l.fingerprint = fingerprint;
    l.arrived = l.seen = l.refused = false;
    ++awaited_;
    if (l.kept.size() != 0) take_kept(index, l, out);
  }
  /// Whether the message that is asked for has arrived; whoever asks knows from now on.
  bool see(tcp_lane_end& l) noexcept {
    if (!l.arrived) return false;
    if (!l.seen) --unseen_;
    return l.seen = true;
  }
  /// It has been taken from where it was asked for, or is not wanted any more: then what still comes of it has no place
  /// to go, and nothing more can be read.
  void forget(std::uint32_t index) noexcept {
    tcp_lane_end& l = *lanes_[index];
    if (l.to == nullptr) return;
    if (left_ != 0 && to_ != nullptr && lane_ == &l) abandoned_ = true;
    if (!l.arrived)
      --awaited_;
    else if (!l.seen)
      --unseen_;
    l.to = nullptr;
    l.arrived = false;
  }

  /// Where the payload that is coming in goes straight to its place: as much as there is to come.
  std::byte* direct() const { return left_ != 0 ? to_ : nullptr; }
  std::size_t left() const { return static_cast<std::size_t>(left_); }
  /// So much of it has come.
  void filled(std::size_t bytes) noexcept {
    to_ += bytes;
    left_ -= bytes;
    if (left_ == 0) finish();
  }

  /// Takes in the next bytes of the stream, until that message has arrived; returns how many. The memory may overlap
  /// where the message that is read goes, if it lies behind. Where there is no memory for what has come it throws, and
  /// nothing more can be read.
  std::size_t feed(const std::byte* from, std::size_t bytes, const tcp_lane_end* until, tcp_output& out) {
    try {
      return take_apart(from, bytes, until, out);
    } catch (...) {
      abandoned_ = true;
      throw;
    }
  }

 private:
  std::size_t take_apart(const std::byte* from, std::size_t bytes, const tcp_lane_end* until, tcp_output& out) {
    std::size_t fed = 0;
    while (fed != bytes && !corrupt_ && !abandoned_ && (until == nullptr || !until->arrived)) {
      const std::size_t there = bytes - fed;
      if (left_ != 0) {
        const std::size_t part = left_ < there ? static_cast<std::size_t>(left_) : there;
        if (to_ != nullptr) {
          if (to_ != from + fed) std::memmove(to_, from + fed, part);
          to_ += part;
        } else {
          keep(from + fed, part, out);
        }
        left_ -= part;
        if (left_ == 0) finish();
        fed += part;
        continue;
      }
      const std::size_t missing = tcp_header::size - header_bytes_;
      const std::size_t part = missing < there ? missing : there;
      std::memcpy(raw_ + header_bytes_, from + fed, part);
      header_bytes_ += part;
      fed += part;
      if (header_bytes_ == tcp_header::size) begin(out);
    }
    return fed;
  }
  void begin(tcp_output& out) {
    header_bytes_ = 0;
    header_ = decode_tcp_header(raw_);
    if (!sound(header_)) [[unlikely]] {
      corrupt_ = true;
      return;
    }
    lane_ = &lane(header_.lane);
    tcp_lane_end& l = *lane_;
    if (header_.kind != tcp_frame_kind::message) [[unlikely]] {
      l.held = header_.kind == tcp_frame_kind::pause;
      return;
    }
    left_ = header_.bytes;
    if (l.awaits() && l.kept.size() == 0) [[likely]] {
      if (l.fits(header_)) [[likely]] {
        to_ = l.to;
        if (left_ == 0) finish();
        return;
      }
      refuse(l, header_);
    }
    to_ = nullptr;
    keep(raw_, tcp_header::size, out);
  }
  /// A payload has come whole.
  void finish() noexcept {
    if (to_ == nullptr) return;
    to_ = nullptr;
    arrive(*lane_);
  }
  void arrive(tcp_lane_end& l) noexcept {
    l.arrived = true;
    --awaited_;
    ++unseen_;
  }
  void refuse(tcp_lane_end& l, const tcp_header& header) noexcept {
    l.came = header;
    l.refused = true;
    arrive(l);
  }

  [[gnu::noinline]] void keep(const std::byte* from, std::size_t bytes, tcp_output& out) {
    tcp_lane_end& l = *lane_;
    l.kept.push(from, bytes, pool_);
    if (l.pausing || l.kept.size() <= most_kept) return;
    out.push_control({0, 0, header_.lane, tcp_frame_kind::pause});
    l.pausing = true;
    ++l.unsent;
  }
  [[gnu::noinline]] void take_kept(std::uint32_t index, tcp_lane_end& l, tcp_output& out) {
    std::byte raw[tcp_header::size];
    l.kept.peek(raw, sizeof raw);
    const tcp_header header = decode_tcp_header(raw);
    if (!l.fits(header)) {
      refuse(l, header);
      return;
    }
    l.kept.pop(raw, sizeof raw, pool_);
    const std::size_t there = l.kept.size() < header.bytes ? l.kept.size() : static_cast<std::size_t>(header.bytes);
    l.kept.pop(l.to, there, pool_);
    if (there == header.bytes) {
      arrive(l);
    } else {
      to_ = l.to + there;  // the rest is what is coming in
    }
    if (l.pausing && l.kept.size() <= most_kept / 2) {
      out.push_control({0, 0, index, tcp_frame_kind::resume});
      l.pausing = false;
      ++l.unsent;
    }
  }

  [[gnu::noinline, gnu::cold]] void add(std::uint32_t index) {
    if (index >= lanes_.size()) {
      const std::size_t twice = 2 * lanes_.size();
      owned_array<tcp_lane_end*> larger(index < twice ? twice : std::size_t{index} + 1, "the lanes of a connection");
      for (std::size_t i = 0; i < lanes_.size(); ++i) larger[i] = lanes_[i];
      lanes_ = std::move(larger);
    }
    lanes_[index] = allocating(sizeof(tcp_lane_end), "a lane of a connection", [] { return new tcp_lane_end; });
  }

  owned_array<tcp_lane_end*> lanes_;
  tcp_backlog_pool pool_;
  int awaited_ = 0;
  int unseen_ = 0;
  // The frame that is coming in.
  std::byte raw_[tcp_header::size] = {};
  std::size_t header_bytes_ = 0;  // that have come of it
  tcp_header header_;
  tcp_lane_end* lane_ = nullptr;
  std::uint64_t left_ = 0;   // of the payload
  std::byte* to_ = nullptr;  // null: it is kept
  bool corrupt_ = false;
  bool abandoned_ = false;
};

}  // namespace tutti::detail
