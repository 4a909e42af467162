// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/frame.hpp>
#include <tutti/transport/tcp/socket_io.hpp>

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// A frame that is to be written, and how far it has got.
struct tcp_outgoing {
  tcp_outgoing* next;
  const std::byte* data;
  std::size_t bytes;  // of the payload
  std::size_t done;   // of header and payload
  std::uint64_t lane;
  bool control;
  std::byte header[tcp_header::size];
  owned_array<std::byte> copy;  // kept for the next frame that needs one

  std::size_t left() const { return tcp_header::size + bytes - done; }

  /// Writes what there is room for, at most `most` bytes.
  template <class Wire>
  socket_result write(Wire& wire, int socket, std::size_t most) noexcept {
    iovec parts[2];
    std::size_t count = 0;
    if (done < tcp_header::size) {
      const std::size_t left = tcp_header::size - done;
      parts[count++] = {header + done, left < most ? left : most};
      most -= parts[0].iov_len;
    }
    const std::size_t begin = done < tcp_header::size ? 0 : done - tcp_header::size;
    const std::size_t left = bytes - begin < most ? bytes - begin : most;
    if (left != 0) parts[count++] = {const_cast<std::byte*>(data + begin), left};  // NOLINT: sendmsg only reads it
    const socket_result result = wire.write(socket, parts, count);
    done += result.bytes;
    return result;
  }
};

/// The frames that wait to be written on one connection, in order for each lane; those of held lanes let others pass.
class tcp_output {
 public:
  tcp_output() = default;
  tcp_output(const tcp_output&) = delete;
  tcp_output& operator=(const tcp_output&) = delete;
  ~tcp_output() {
    clear(first_);
    clear(unused_);
    delete current_;
  }

  bool empty() const { return current_ == nullptr && first_ == nullptr; }

  /// With `copy` the payload from where `done` has got is copied.
  void push(const tcp_header& header, const std::byte* data, std::size_t done, bool copy) {
    tcp_outgoing* const o = make(header, data, done);
    if (copy && o->bytes != 0) {
      try {
        this->copy(*o);
      } catch (...) {
        o->next = std::exchange(unused_, o);
        throw;
      }
    }
    if (done != 0) {
      current_ = o;
    } else {
      (last_ == nullptr ? first_ : last_->next) = o;
      last_ = o;
    }
  }
  /// Before all messages, but that which has been written in part.
  void push_control(const tcp_header& header) {
    tcp_outgoing* const o = make(header, nullptr, 0);
    o->control = true;
    tcp_outgoing* before = nullptr;
    while (tcp_outgoing* const next = before == nullptr ? first_ : before->next) {
      if (!next->control) break;
      before = next;
    }
    tcp_outgoing*& place = before == nullptr ? first_ : before->next;
    o->next = std::exchange(place, o);
    if (last_ == before) last_ = o;
  }

  /// What is to be written next, or null; `held(lane)` says which lanes must wait.
  template <class Held>
  tcp_outgoing* next(const Held& held) const {
    if (current_ != nullptr) return current_;
    for (tcp_outgoing* o = first_; o != nullptr; o = o->next)
      if (o->control || !held(o->lane)) return o;
    return nullptr;
  }
  /// That one has begun to be written.
  void begin(tcp_outgoing* o) noexcept {
    if (o == current_) return;
    take_out(o);
    current_ = o;
  }
  /// That one, which has begun, has been written.
  void end() noexcept { recycle(std::exchange(current_, nullptr)); }

  /// Takes out what is left of a lane. False if a frame of it has been written in part.
  bool drop(std::uint64_t lane) noexcept {
    take_out_if([lane](const tcp_outgoing& o) { return o.lane == lane && !o.control; });
    return current_ == nullptr || current_->lane != lane || current_->control;
  }
  /// Nothing of those lanes is read any more from where the sender has it: takes out what has not begun to be written,
  /// and copies what has. False if there is no memory for that.
  bool release(std::uint64_t first, std::uint64_t last) noexcept {
    const auto reads = [&](const tcp_outgoing& o) {
      return o.lane >= first && o.lane <= last && o.bytes != 0 && o.data != o.copy.begin();
    };
    take_out_if(reads);
    if (current_ == nullptr || !reads(*current_)) return true;
    try {
      copy(*current_);
      return true;
    } catch (...) {
      return false;
    }
  }
  /// Frames of that lane.
  std::uint32_t count(std::uint64_t lane) const noexcept {
    std::uint32_t frames = current_ != nullptr && current_->lane == lane;
    for (const tcp_outgoing* o = first_; o != nullptr; o = o->next) frames += o->lane == lane;
    return frames;
  }

 private:
  tcp_outgoing* make(const tcp_header& header, const std::byte* data, std::size_t done) {
    if (unused_ == nullptr)
      unused_ = allocating(sizeof(tcp_outgoing), "a queue of messages", [] { return new tcp_outgoing{}; });
    tcp_outgoing* const o = std::exchange(unused_, unused_->next);
    o->next = nullptr;
    o->data = data;
    o->bytes = static_cast<std::size_t>(header.bytes);
    o->done = done;
    o->lane = header.lane;
    o->control = false;
    encode(header, o->header);
    return o;
  }
  /// What is left of the payload is not read from its place any more.
  static void copy(tcp_outgoing& o) {
    const std::size_t begin = o.done < tcp_header::size ? 0 : o.done - tcp_header::size;
    if (o.copy.size() < o.bytes) o.copy = owned_array<std::byte>(o.bytes, "a message that waits to be written");
    std::memcpy(o.copy.data() + begin, o.data + begin, o.bytes - begin);
    o.data = o.copy.data();
  }
  template <class Which>
  void take_out_if(const Which& which) noexcept {
    for (tcp_outgoing* o = first_; o != nullptr;) {
      tcp_outgoing* const next = o->next;
      if (which(*o)) {
        take_out(o);
        recycle(o);
      }
      o = next;
    }
  }
  void recycle(tcp_outgoing* o) noexcept { o->next = std::exchange(unused_, o); }
  void take_out(tcp_outgoing* o) noexcept {
    tcp_outgoing* before = nullptr;
    for (tcp_outgoing* at = first_; at != o; at = at->next) before = at;
    (before == nullptr ? first_ : before->next) = o->next;
    if (last_ == o) last_ = before;
    o->next = nullptr;
  }
  static void clear(tcp_outgoing* list) noexcept {
    while (list != nullptr) delete std::exchange(list, list->next);
  }

  tcp_outgoing* current_ = nullptr;  // written in part
  tcp_outgoing* first_ = nullptr;
  tcp_outgoing* last_ = nullptr;
  tcp_outgoing* unused_ = nullptr;
};

}  // namespace tutti::detail
