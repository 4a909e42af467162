// SPDX-License-Identifier: BSL-1.0
#pragma once

// What ranks and their arbiter tell each other on control connections, and how that is written. Every length is checked
// before anything is allocated.

#include <tutti/core/error.hpp>
#include <tutti/transport/recorded_calls.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::detail {

/// What a message says. A rank tells the arbiter, which is on rank 0, or the arbiter tells a rank. `group`: about which
/// communicator, 0 for the whole group. `peer` is a rank of the whole group, but in a failure one of that communicator.
enum class control_kind : std::uint32_t {
  ping = 1,  ///< both ways: somebody is there
  // A rank to the arbiter:
  failed,    ///< `group`, `members`, `code`, `peer`, `text`: why it must fail
  suspects,  ///< `peer`, `text`: the data connection to that rank is lost
  differs,   ///< `group`, `members`, `peer`: a message of that rank belongs to another call; `calls`: this end of a
             ///< message that does not fit
  late,      ///< `group`, `members`, `peer`, `round`, `milliseconds`, `calls`: waited for so long for that rank, in
             ///< that call
  looks,     ///< `group`, `peer`, `number`, `fingerprint`, `ticket`: waits for that rank, in that call; and which
             ///< communicator that one was made of
  misses,    ///< `peer`, `number`: waits for bytes of that rank, after so many
  wrote,     ///< `peer`, `number`: has written so many bytes for that rank, which misses some of them
  answers,   ///< `ticket`, `number`, `text`, `calls`: the last call, why no more connections can be made (or nothing),
             ///< and the calls in the log that was asked for
  goodbye,   ///< `number`, `fingerprint`: the rank has left, and this was its last call
  // The arbiter to a rank:
  asks,      ///< `group`, `fingerprint`, `ticket`, `number`: are you there; 1: and what did you call; 2: and what did
             ///< you send to single ranks; where the members have that hash
  watches,   ///< `group`, `peer`, `number`, `fingerprint`, `ticket`: that rank waits for you, in that call; as above
  missed,    ///< `peer`, `number`: that rank waits for bytes of yours, after so many
  written,   ///< `peer`, `number`: that rank has written so many bytes for you
  has_left,  ///< `group`, `peer`, `number`, `ticket`: that rank has left, after that call; a communicator, when it had
             ///< written so many bytes for you
  verdict,   ///< `group`, `fingerprint`, `code`, `peer`, `text`: why it has failed; whose members have that hash
  farewell,  ///< all have left, and have called the same
  // A rank to the arbiter:
  keeps,   ///< `group`, `members`, `number`, `fingerprint`: the rank is about to leave with that communicator, and this
           ///< was its last call there
  is_gone  ///< `group`, `peer`, `number`, `ticket`: that rank waits for this one, which has left that communicator
           ///< after that call, or does not know which, and has written so many bytes for that rank since
};
inline constexpr control_kind last_control_kind = control_kind::is_gone;

/// One message. What a kind does not name is sent as it is here.
struct control_message {
  control_kind kind = control_kind::ping;
  std::int32_t peer = -1;
  errc code = errc::peer_failed;
  std::int32_t round = -1;
  std::int64_t milliseconds = 0;
  std::uint64_t ticket = 0;
  std::uint64_t number = 0;
  std::uint64_t fingerprint = 0;
  std::string text = {};
  std::shared_ptr<const recorded_calls> calls = {};
  std::uint32_t group = 0;
  std::shared_ptr<const std::vector<std::int32_t>> members = {};  // of that communicator, ranks of the whole group

  // What `asks` asks for.
  static constexpr std::uint64_t no_calls = 0;
  static constexpr std::uint64_t all_calls = 1;
  static constexpr std::uint64_t all_messages = 2;
  // After all others.
  static constexpr std::uint64_t unknown_call = UINT64_MAX;

  /// The failure that the message tells of.
  failure reason() const { return {code, peer, text}; }
  static control_message of(control_kind kind, const failure& f) {
    control_message m;
    m.kind = kind;
    m.peer = f.peer;
    m.code = f.kind;
    m.text = f.text;
    return m;
  }
};

/// Frames: the number of bytes that follow the head (u32), the kind (u32), then the fixed fields, the text, the calls,
/// the communicator and its members. Little-endian.
struct control_frame {
  static constexpr std::size_t head_bytes = 8;
  static constexpr std::size_t most_text = 4000;  ///< longer ones are cut
  static constexpr std::size_t most_members = std::size_t{1} << 17;
  static constexpr std::size_t fixed_bytes = 3 * 4 + 4 * 8 + 4 + 4 + 4 + 4;
  static constexpr std::size_t fixed_bytes_of_call = 5 * 8 + 2 * 4 + recorded_call::texts;
  static constexpr std::size_t most_body =
      fixed_bytes + most_text +
      recorded_calls::most * (fixed_bytes_of_call + recorded_call::texts * recorded_call::most_text) + 4 * most_members;
  static_assert(recorded_call::most_text < 256);
};

/// Puts numbers and texts one after the other.
class control_writer {
 public:
  explicit control_writer(std::string& out) : out_(&out) {}
  void u8(std::uint8_t value) { out_->push_back(static_cast<char>(value)); }
  void u32(std::uint32_t value) { little_endian(value, 4); }
  void i32(std::int32_t value) { u32(static_cast<std::uint32_t>(value)); }
  void u64(std::uint64_t value) { little_endian(value, 8); }
  void bytes(std::string_view text) { out_->append(text.data(), text.size()); }

  // The fields of a recorded call.
  void field(std::uint64_t value) { u64(value); }
  void field(std::uint32_t value) { u32(value); }
  void field(std::int32_t value) { i32(value); }
  void field(const std::string& text) {
    const std::string_view cut = std::string_view(text).substr(0, recorded_call::most_text);
    u8(static_cast<std::uint8_t>(cut.size()));
    bytes(cut);
  }

 private:
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
  std::string* out_;
};

/// Takes them again; whatever is asked for beyond the end is zero, and `good()` no more.
class control_reader {
 public:
  explicit control_reader(std::string_view in) : in_(in) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(little_endian(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(little_endian(4)); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::uint64_t u64() { return little_endian(8); }
  std::string_view bytes(std::size_t count) {
    if (count > in_.size()) return fail(), std::string_view();
    const std::string_view taken = in_.substr(0, count);
    in_.remove_prefix(count);
    return taken;
  }

  // The fields of a recorded call.
  void field(std::uint64_t& value) { value = u64(); }
  void field(std::uint32_t& value) { value = u32(); }
  void field(std::int32_t& value) { value = i32(); }
  void field(std::string& text) { text = bytes(u8()); }

  bool good() const { return good_; }
  std::size_t left() const { return in_.size(); }
  /// All has been taken.
  bool at_end() const { return good_ && in_.empty(); }
  void fail() {
    good_ = false;
    in_ = {};
  }

 private:
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view taken = bytes(count);
    for (std::size_t i = 0; i < taken.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }
  std::string_view in_;
  bool good_ = true;
};

/// Appends the message as a frame.
inline void write_control(std::string& out, const control_message& m) {
  const std::size_t start = out.size();
  control_writer w(out);
  w.u32(0);
  w.u32(static_cast<std::uint32_t>(m.kind));
  w.i32(m.peer);
  w.i32(static_cast<std::int32_t>(m.code));
  w.i32(m.round);
  w.u64(static_cast<std::uint64_t>(m.milliseconds));
  w.u64(m.ticket);
  w.u64(m.number);
  w.u64(m.fingerprint);
  const std::string_view text = std::string_view(m.text).substr(0, control_frame::most_text);
  w.u32(static_cast<std::uint32_t>(text.size()));
  w.bytes(text);
  const std::size_t calls = m.calls == nullptr ? 0 : m.calls->size();
  w.u32(static_cast<std::uint32_t>(calls));
  for (std::size_t i = 0; i < calls; ++i)
    recorded_call::walk((*m.calls)[i], [&w](const auto& field) { w.field(field); });
  w.u32(m.group);
  const std::size_t members = m.members == nullptr ? 0 : m.members->size();
  w.u32(static_cast<std::uint32_t>(members));
  for (std::size_t i = 0; i < members; ++i) w.i32((*m.members)[i]);
  const std::size_t body = out.size() - start - control_frame::head_bytes;
  for (std::size_t i = 0; i < 4; ++i) out[start + i] = static_cast<char>((body >> (8 * i)) & 0xff);
}

/// The message that the body of a frame of that kind is; none if it is no such message.
inline std::optional<control_message> read_control(std::uint32_t kind, std::string_view body) {
  if (kind < 1 || kind > static_cast<std::uint32_t>(last_control_kind)) return {};
  control_reader r(body);
  control_message m;
  m.kind = static_cast<control_kind>(kind);
  m.peer = r.i32();
  const std::int32_t code = r.i32();
  m.code = static_cast<errc>(code);
  m.round = r.i32();
  m.milliseconds = static_cast<std::int64_t>(r.u64());
  m.ticket = r.u64();
  m.number = r.u64();
  m.fingerprint = r.u64();
  if (code < static_cast<int>(errc::usage) || code > static_cast<int>(errc::resource)) return {};
  const std::uint32_t length = r.u32();
  if (length > control_frame::most_text) return {};
  m.text = r.bytes(length);
  const std::uint32_t calls = r.u32();
  if (calls > recorded_calls::most || !r.good()) return {};
  if (calls != 0) {
    const auto read = std::make_shared<recorded_calls>();
    for (std::uint32_t i = 0; i < calls && r.good(); ++i) {
      recorded_call c;
      recorded_call::walk(c, [&r](auto& field) { r.field(field); });
      read->add(std::move(c));
    }
    m.calls = read;
  }
  m.group = r.u32();
  const std::uint32_t members = r.u32();
  if (members > control_frame::most_members || r.left() != std::size_t{members} * 4) return {};
  if (members != 0) {
    std::vector<std::int32_t> read(members);
    for (std::int32_t& each : read) each = r.i32();
    m.members = std::make_shared<const std::vector<std::int32_t>>(std::move(read));
  }
  if (!r.at_end()) return {};
  return m;
}

/// Takes frames out of a stream of bytes, however it is cut. Keeps at most one frame.
class control_stream {
 public:
  /// Takes in what has arrived and calls `f(control_message&)` for each message that is whole, while that returns true.
  /// False if these are no messages: then nothing of what follows is, either.
  template <class F>
  bool take(std::string_view arrived, F&& f) {
    while (!arrived.empty()) {
      const std::size_t wanted = kept_.size() < control_frame::head_bytes ? control_frame::head_bytes : frame_bytes();
      const std::size_t part = std::min(wanted - kept_.size(), arrived.size());
      kept_.append(arrived.data(), part);
      arrived.remove_prefix(part);
      if (kept_.size() < control_frame::head_bytes) return true;
      if (frame_bytes() > control_frame::head_bytes + control_frame::most_body) return false;
      if (kept_.size() < frame_bytes()) continue;
      control_reader head(kept_);
      head.u32();
      const std::uint32_t kind = head.u32();
      std::optional<control_message> m = read_control(kind, std::string_view(kept_).substr(control_frame::head_bytes));
      kept_.clear();
      if (!m) return false;
      if (!f(*m)) return true;
    }
    return true;
  }

 private:
  std::size_t frame_bytes() const { return control_frame::head_bytes + control_reader(kept_).u32(); }

  std::string kept_;
};

}  // namespace tutti::detail
