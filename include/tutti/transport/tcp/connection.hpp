// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/descriptor.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/output.hpp>
#include <tutti/transport/tcp/plain_wire.hpp>
#include <tutti/transport/tcp/reader.hpp>
#include <tutti/transport/tcp/socket_io.hpp>
#include <tutti/transport/tcp/tuning.hpp>

#include <sys/socket.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tutti::detail {

/// The data connection to one peer, which carries all lanes. One thread uses it, that of its rank; another may
/// `establish` it once and `shut_down` it.
///
/// Whoever looks for a message reads what has come, and writes what waits. No call waits.
template <class Wire>
class basic_tcp_connection {
 public:
  basic_tcp_connection() = default;
  basic_tcp_connection(const basic_tcp_connection&) = delete;
  basic_tcp_connection& operator=(const basic_tcp_connection&) = delete;
  ~basic_tcp_connection() { close(); }

  /// Before it is established.
  void tune(const tcp_tuning& tuning) {
    call_bytes_ = tuning.call_bytes;
    local_queue_bytes_ = tuning.local_queue_bytes;
    reader_.most_kept = tuning.kept_bytes;
  }
  /// Which communicators there are beside the whole group; else there are none.
  void know(const tcp_group_numbers& numbers) { reader_.know(numbers); }

  // ---- Any thread

  /// Takes over a connected stream socket, of which nothing has been read yet. Once.
  void establish(descriptor_owner socket) noexcept {
    tune_local_socket(socket.get(), local_queue_bytes_);
    socket_.store(socket.release(), std::memory_order_release);
  }
  /// The same from a socket of Asio, or what gives its descriptor away likewise.
  template <class Socket>
  void establish(Socket&& socket) requires requires {
    socket.release();
    socket.native_handle();
  }
  { establish(descriptor_owner(wire_.take_over(std::forward<Socket>(socket)))); }
  bool established() const noexcept { return descriptor() >= 0; }
  int descriptor() const noexcept { return socket_.load(std::memory_order_acquire); }
  /// How many bytes have been given to the system; 0 before there is a connection, and 1 more after that.
  std::uint64_t written() const noexcept {
    return established() ? wire_.written(written_.load(std::memory_order_relaxed)) : 0;
  }
  /// How many bytes of frames have been written, and 1 more; what is told to the peer, to compare with its `taken()`.
  std::uint64_t given() const noexcept { return written_.load(std::memory_order_relaxed); }
  /// Nothing more is sent: the peer sees the end once it has read what was.
  void finish_sending() noexcept {
    if (established()) wire_.finish(descriptor());
  }
  /// Nothing more is sent or received, on either side.
  void shut_down() noexcept {
    if (established()) ::shutdown(descriptor(), SHUT_RDWR);
  }

  // ---- The thread of the rank

  /// Also when that thread has ended. What waits to be written is lost.
  void close() noexcept {
    wire_.close();
    descriptor_owner(socket_.exchange(-1, std::memory_order_acq_rel));
  }

  /// Starts a message: true if its bytes are not needed any more, since they have been written, or copied as `copy`
  /// asks.
  bool send(std::uint64_t lane, std::uint64_t fingerprint, const std::byte* data, std::size_t bytes, bool copy) {
    const tcp_header header{bytes, fingerprint, lane, tcp_frame_kind::message};
    std::size_t done = 0;
    if (output_.empty() && established() && !reader_.held(lane) && write_error_ == 0) [[likely]] {
      done = bytes <= small_bytes ? write_small(header, data) : write_large(header, data);
      if (done == tcp_header::size + bytes) [[likely]] {
        look_for_pause();
        return true;
      }
    }
    return send_later(header, data, done, copy);
  }
  /// Whether nothing of the lane waits to be written.
  bool sent(std::uint64_t lane) const {
    const tcp_lane_end* const l = reader_.find(lane);
    return l == nullptr || l->unsent == 0;
  }

  /// Asks for the next message of a lane, which goes to `to`, not null.
  void ask(std::uint64_t lane, std::byte* to, std::size_t bytes, std::uint64_t fingerprint) {
    reader_.ask(lane, to, bytes, fingerprint, output_);
    // Who is told to resume need not wait until this rank looks here again.
    if (!output_.empty()) [[unlikely]]
      flush();
  }
  /// Whether it has arrived, after one look; if it was refused another has, whose header is `came`.
  bool look(std::uint64_t lane) {
    tcp_lane_end& l = reader_.lane(lane);
    if (!l.arrived) {
      if (!output_.empty() || owes()) flush();
      read(&l);
    }
    return reader_.see(l);
  }
  const tcp_lane_end& end_of(std::uint64_t lane) { return reader_.lane(lane); }
  /// It has been taken.
  void take(std::uint64_t lane) noexcept { reader_.forget(lane); }

  /// Writes what waits and there is room for; true if nothing is left.
  bool flush() {
    if (!established() || write_error_ != 0) return output_.empty();
    while (tcp_outgoing* const o = next_to_write()) {
      const bool whole = write(*o);
      if (o->done != 0) output_.begin(o);
      if (!whole) return false;
      if (tcp_lane_end* const l = reader_.find(o->lane)) --l->unsent;
      output_.end();
      look_for_pause();
    }
    if (owes()) write_error_ = wire_.flush();
    return output_.empty() && !owes();
  }
  /// Reads and writes what is possible, for all lanes.
  void advance() {
    if (!output_.empty() || owes()) flush();
    if (has_read() || wants_to_read()) read(nullptr);
  }

  /// Somebody waits for a message, or for the peer to take messages again.
  bool wants_to_read() const {
    return can_read() && (reader_.awaited() != 0 || (!output_.empty() && next_to_write() == nullptr));
  }
  bool wants_to_write() const {
    if (!established() || write_error_ != 0) return false;
    return owes() || (!output_.empty() && next_to_write() != nullptr);
  }
  /// This rank cannot go on before something comes from the peer.
  bool misses() const {
    return established() ? wants_to_read() : !ended() && (reader_.awaited() != 0 || !output_.empty());
  }
  /// How many bytes have come, counted as `written()` counts there.
  std::uint64_t received() const { return established() ? wire_.received(received_) : 0; }
  /// How many bytes of frames have been taken apart, counted as `given()` counts there.
  std::uint64_t taken() const { return received_ - (end_ - begin_); }
  /// A message that is asked for has arrived, and whoever asked for it has not looked since.
  bool has_arrived() const { return reader_.unseen() != 0; }
  /// Something has been read and not looked at.
  bool has_read() const { return begin_ != end_; }
  /// Something can be read although the descriptor does not say so.
  bool holds() const { return Wire::buffers && can_read() && wire_.holds(); }

  /// The lane ends by an exception: its memory is neither read nor written any more. Its communicator has failed; if
  /// that is not the whole group, the other lanes go on.
  void abandon(std::uint64_t lane) noexcept {
    if (tcp_lane_id::group(lane) != 0) return withdraw(lane);
    tcp_lane_end* const end = reader_.find(lane);
    if (end == nullptr) return;
    reader_.forget(lane);
    if (!output_.drop(lane)) write_error_ = EPIPE;
    end->unsent = 0;
  }
  /// The same, and all other lanes go on.
  void withdraw(std::uint64_t lane) noexcept {
    tcp_lane_end* const end = reader_.find(lane);
    if (end == nullptr) return;
    reader_.forget(lane);
    // One frame less would be a message of another size for the peer: none that has not begun is sent.
    if (!output_.drop(lane) && !output_.release(lane, lane)) write_error_ = EPIPE;
    end->unsent = output_.count(lane);
  }
  /// This rank leaves that communicator: what has been copied is still sent, what still comes is forgotten.
  void leave(std::uint32_t group) noexcept {
    if (!output_.release(tcp_lane_id::of(group, 0), tcp_lane_id::of(group + 1, 0) - 1)) write_error_ = EPIPE;
    reader_.leave(group, output_);
    try {
      if (!output_.empty()) flush();
    } catch (...) {  // no memory for what came meanwhile: whoever looks next finds out
    }
  }
  /// Communicators of which this end keeps anything, beside the whole group.
  std::size_t groups_known() const { return reader_.lanes().parts(); }

  // ---- What has gone wrong

  /// Nothing more can be read: the peer has ended its side, the connection is broken, or what came made no sense.
  bool ended() const { return ended_ || error_ != 0 || reader_.corrupt() || reader_.abandoned(); }
  bool broken() const { return ended() || write_error_ != 0; }
  bool corrupt() const { return reader_.corrupt(); }
  const tcp_header& last_header() const { return reader_.last_header(); }
  /// True once: it is told to the group.
  bool tell() noexcept { return !std::exchange(told_, true); }
  [[gnu::noinline, gnu::cold]] std::string what() const {
    if (error_ != 0) return wire_.what(error_);
    if (!ended_ && write_error_ != 0) return wire_.what(write_error_);
    return reader_.between_frames() && begin_ == end_ ? "it ended the connection"
                                                      : "it ended the connection in a message";
  }

 private:
  static constexpr std::size_t staging_bytes = std::size_t{16} * 1024;
  static constexpr std::size_t small_bytes = 1024;
  // After so many bytes a rank that only sends looks whether it has been asked to pause.
  static constexpr std::size_t most_unread = std::size_t{8} << 20;
  static constexpr std::size_t most_at_once = std::size_t{8} << 20;

  static std::size_t least(std::size_t one, std::size_t other) { return one < other ? one : other; }
  tcp_outgoing* next_to_write() const {
    return output_.next([this](std::uint64_t lane) { return reader_.held(lane); });
  }
  bool owes() const { return Wire::buffers && established() && wire_.owes(); }
  bool can_read() const { return established() && !ended(); }

  void look_for_pause() {
    if (unread_ >= most_unread) [[unlikely]]
      read(nullptr);
  }
  [[gnu::noinline]] bool send_later(const tcp_header& header, const std::byte* data, std::size_t done, bool copy) {
    tcp_lane_end& l = reader_.lane(header.lane);
    output_.push(header, data, done, copy);
    ++l.unsent;
    return copy;
  }
  void count(std::size_t sent) noexcept {
    unread_ += sent;
    written_.store(written_.load(std::memory_order_relaxed) + sent, std::memory_order_relaxed);
  }
  /// A copy of a small frame in one place is cheaper than telling the system of two.
  std::size_t write_small(const tcp_header& header, const std::byte* data) noexcept {
    std::byte frame[tcp_header::size + small_bytes];
    encode(header, frame);
    const auto bytes = static_cast<std::size_t>(header.bytes);
    if (bytes != 0) std::memcpy(frame + tcp_header::size, data, bytes);
    const socket_result result = wire_.write(descriptor(), frame, least(tcp_header::size + bytes, call_bytes_));
    write_error_ = result.error;
    count(result.bytes);
    return result.bytes;
  }
  [[gnu::noinline]] std::size_t write_large(const tcp_header& header, const std::byte* data) noexcept {
    tcp_outgoing o{};
    o.data = data;
    o.bytes = static_cast<std::size_t>(header.bytes);
    encode(header, o.header);
    write(o);
    return o.done;
  }
  /// Writes until there is no room: true if the frame has been written.
  bool write(tcp_outgoing& o) noexcept {
    for (;;) {
      const std::size_t asked = least(o.left(), call_bytes_);
      const socket_result result = o.write(wire_, descriptor(), asked);
      count(result.bytes);
      if (o.left() == 0) return true;
      write_error_ = result.error;
      if (result.bytes < asked) return false;
    }
  }

  /// Reads until that message has arrived, or else until there is nothing more, or something to write meanwhile, or so
  /// much has come that others may wait.
  void read(const tcp_lane_end* until) {
    unread_ = 0;
    std::size_t total = 0;
    if (begin_ != end_) {
      begin_ += reader_.feed(staging_ + begin_, end_ - begin_, until, output_);
      if (until != nullptr && until->arrived) return;
    }
    while (can_read()) {
      socket_result result;
      std::size_t asked = 0;
      if (std::byte* const to = reader_.direct(); to != nullptr) {
        asked = least(reader_.left(), call_bytes_);
        result = wire_.read(descriptor(), to, asked);
        if (result.bytes != 0) reader_.filled(result.bytes);
      } else if (until != nullptr && until->bytes > staging_bytes - tcp_header::size && call_bytes_ > staging_bytes &&
                 reader_.at_start_of(*until)) {
        asked = least(until->bytes, call_bytes_ - tcp_header::size) + tcp_header::size;
        result = read_straight(*until, asked);
      } else {
        asked = least(staging_bytes, call_bytes_);
        result = wire_.read(descriptor(), staging_, asked);
        begin_ = 0;
        end_ = result.bytes;
        begin_ = reader_.feed(staging_, end_, until, output_);
      }
      error_ = result.error;
      ended_ = result.ended;
      total += result.bytes;
      received_ += result.bytes;
      if ((until != nullptr && until->arrived) || result.bytes < asked || !output_.empty() || total > most_at_once)
        return;
    }
  }
  /// The next frame is likely to be the message that is looked for: reads its header, and its payload to its place. If
  /// it is another, what came is taken from there to where it belongs.
  socket_result read_straight(const tcp_lane_end& until, std::size_t bytes) {
    iovec parts[2] = {{staging_, tcp_header::size}, {until.to, bytes - tcp_header::size}};
    std::byte* const to = until.to;
    const socket_result result = wire_.read(descriptor(), parts, 2);
    const std::size_t head = least(result.bytes, tcp_header::size);
    reader_.feed(staging_, head, nullptr, output_);
    if (result.bytes > head) reader_.feed(to, result.bytes - head, nullptr, output_);
    return result;
  }

  [[no_unique_address]] Wire wire_;
  std::atomic<int> socket_{-1};
  bool ended_ = false;
  bool told_ = false;
  int error_ = 0;  // of reading
  int write_error_ = 0;
  std::size_t call_bytes_ = tcp_tuning{}.call_bytes;
  std::size_t local_queue_bytes_ = 0;
  std::size_t unread_ = 0;  // bytes written since this end last read
  std::atomic<std::uint64_t> written_{1};
  std::uint64_t received_ = 1;
  tcp_output output_;
  tcp_reader reader_;
  // What has been read and not taken apart.
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::byte staging_[staging_bytes];
};

using tcp_connection = basic_tcp_connection<tcp_plain_wire>;

}  // namespace tutti::detail
