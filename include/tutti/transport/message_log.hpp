// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a rank remembers of the messages that it has sent to single ranks, so that others can say what does not fit.

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>
#include <tutti/transport/call_log.hpp>

#include <cstdint>
#include <utility>

namespace tutti::detail {

/// The last messages of one rank to others, for others to read. They are no collective calls, and are numbered by
/// themselves.
template <class Signature, class Text>
class basic_message_log : basic_call_log<Signature, Text> {
  using base = basic_call_log<Signature, Text>;

 public:
  using base::length;

  /// Keeps what is sent; what is received is known to whom it concerns.
  void write(const call& c, Signature signature, Text file) noexcept {
    if (!c.is_outgoing()) return;
    call kept = c;
    kept.sequence = ++written_;
    kept.root = c.to();
    base::write(kept, signature, file);
  }

  /// Calls `f(call)` for each, in order. `from`: whose log it is.
  template <class SignatureAt, class TextAt, class F>
  void each(int from, SignatureAt&& signature_at, TextAt&& text_at, F&& f) const {
    const std::uint64_t last = base::last();
    for (std::uint64_t number = last > length ? last - length + 1 : 1; number <= last; ++number) {
      call c = base::read(number, signature_at, text_at);
      if (c.signature == nullptr) continue;
      c.sequence = call::between(from, std::exchange(c.root, -1));
      f(c);
    }
  }
  /// The message of that number to that rank, if it is among the last ones; else a call without a signature.
  template <class SignatureAt, class TextAt>
  call find(int from, int to, std::uint64_t number, SignatureAt&& signature_at, TextAt&& text_at) const {
    call found;
    each(from, signature_at, text_at, [&](const call& c) {
      if (c.to() == to && c.history == number) found = c;
    });
    return found;
  }

 private:
  std::uint64_t written_ = 0;
};

/// That of a thread.
class message_log : basic_message_log<const call_signature*, const char*> {
  using base = basic_message_log<const call_signature*, const char*>;
  static const call_signature* signature_at(const call_signature* s) { return s; }
  static const char* text_at(const char* text) { return text; }

 public:
  void write(const call& c) noexcept { base::write(c, c.signature, c.where.file); }
  template <class F>
  void each(int from, F&& f) const {
    base::each(from, signature_at, text_at, f);
  }
  call find(int from, int to, std::uint64_t number) const {
    return base::find(from, to, number, signature_at, text_at);
  }
};

/// What a rank receives is not what the other has sent, as far as that is known. Named in rank order.
[[gnu::noinline, gnu::cold]] inline failure misfit(const call& received, const call& sent) {
  const int sender = received.from();
  const int receiver = received.to();
  message sending;
  sending << "rank " << sender << " called ";
  if (sent.signature == nullptr) {
    sending << "a send to rank " << receiver << " that does not fit, message " << received.history
            << ", too many messages ago to say more";
  } else {
    sending << sent.describe();
  }
  message receiving;
  receiving << "rank " << receiver << " called " << received.describe();
  const bool in_order = sender < receiver;
  return {errc::mismatch, in_order ? sender : receiver,
          message() << (in_order ? sending : receiving).str() << "; " << (in_order ? receiving : sending).str()};
}

}  // namespace tutti::detail
