// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>
#include <tutti/transport/tcp/backlog.hpp>
#include <tutti/transport/tcp/frame.hpp>
#include <tutti/transport/tcp/group_numbers.hpp>
#include <tutti/transport/tcp/lane_table.hpp>
#include <tutti/transport/tcp/output.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// Takes the bytes of one connection apart, in whatever portions they come: payloads go where they are asked for, or
/// are kept. Those for communicators that this rank has left are read and forgotten.
class tcp_reader {
 public:
  std::size_t most_kept = std::size_t{512} << 10;  // of one lane, before the peer is asked to pause

  tcp_reader() = default;
  tcp_reader(const tcp_reader&) = delete;
  tcp_reader& operator=(const tcp_reader&) = delete;

  /// Which communicators there are beside the whole group; else there are none.
  void know(const tcp_group_numbers& numbers) { lanes_.know(numbers); }

  /// Stays where it is.
  tcp_lane_end& lane(std::uint64_t id) { return lanes_.lane(id); }
  /// Null if nothing is known of it.
  tcp_lane_end* find(std::uint64_t id) const { return lanes_.find(id); }
  bool held(std::uint64_t id) const {
    const tcp_lane_end* const l = find(id);
    return l != nullptr && l->held;
  }
  const tcp_lane_table& lanes() const { return lanes_; }

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
  void ask(std::uint64_t id, std::byte* to, std::size_t bytes, std::uint64_t fingerprint, tcp_output& out) {
    tcp_lane_end& l = lane(id);
    l.to = to;
    l.bytes = bytes;
    l.fingerprint = fingerprint;
    l.arrived = l.seen = l.refused = false;
    ++awaited_;
    if (l.kept.size() != 0) take_kept(id, l, out);
  }
  /// Whether the message that is asked for has arrived; whoever asks knows from now on.
  bool see(tcp_lane_end& l) noexcept {
    if (!l.arrived) return false;
    if (!l.seen) --unseen_;
    return l.seen = true;
  }
  /// It has been taken from where it was asked for, or is not wanted any more: what still comes of it is forgotten.
  void forget(std::uint64_t id) noexcept {
    tcp_lane_end* const asked = find(id);
    if (asked == nullptr || asked->to == nullptr) return;
    tcp_lane_end& l = *asked;
    if (left_ != 0 && to_ != nullptr && lane_ == &l) [[unlikely]]
      skip();
    forget(l);
  }
  /// This rank leaves that communicator.
  void leave(std::uint32_t group, tcp_output& out) noexcept {
    lanes_.remove(group, [&](std::uint64_t id, tcp_lane_end& l) {
      if (lane_ == &l) skip();
      if (l.to != nullptr) forget(l);
      if (!l.pausing) return;
      try {
        out.push_control({0, 0, id, tcp_frame_kind::resume});
      } catch (...) {
        abandoned_ = true;  // no memory to tell the peer: it would wait for ever
      }
    });
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
        } else if (lane_ != nullptr) {
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
  TUTTI_ALWAYS_INLINE void begin(tcp_output& out) {
    header_bytes_ = 0;
    header_ = decode_tcp_header(raw_);
    if (!sound(header_)) [[unlikely]] {
      corrupt_ = true;
      return;
    }
    lane_ = lanes_.lane_of_arrival(header_.lane, corrupt_);
    if (lane_ == nullptr) [[unlikely]] {
      pass_over();
      return;
    }
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
  /// The frame is for a communicator that this rank has left, or makes no sense.
  [[gnu::noinline]] void pass_over() noexcept {
    left_ = corrupt_ ? 0 : header_.bytes;
    to_ = nullptr;
  }
  /// What comes of this payload is not wanted.
  void skip() noexcept {
    lane_ = nullptr;
    to_ = nullptr;
  }
  void forget(tcp_lane_end& l) noexcept {
    if (!l.arrived)
      --awaited_;
    else if (!l.seen)
      --unseen_;
    l.to = nullptr;
    l.arrived = false;
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
  [[gnu::noinline]] void take_kept(std::uint64_t id, tcp_lane_end& l, tcp_output& out) {
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
      out.push_control({0, 0, id, tcp_frame_kind::resume});
      l.pausing = false;
      ++l.unsent;
    }
  }

  tcp_lane_table lanes_;
  tcp_backlog_pool pool_;
  int awaited_ = 0;
  int unseen_ = 0;
  // The frame that is coming in.
  std::byte raw_[tcp_header::size] = {};
  std::size_t header_bytes_ = 0;  // that have come of it
  tcp_header header_;
  tcp_lane_end* lane_ = nullptr;  // null: it is not wanted
  std::uint64_t left_ = 0;        // of the payload
  std::byte* to_ = nullptr;       // null: it is kept
  bool corrupt_ = false;
  bool abandoned_ = false;
};

}  // namespace tutti::detail
