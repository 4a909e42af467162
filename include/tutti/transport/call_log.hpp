// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the ranks of one process remember of each other's calls, so that they can say which do not fit together.

#include <tutti/core/call.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::detail {

/// The last calls of one rank, for others to read when something does not fit: a seqlock for each entry, made of
/// release stores and acquire loads alone. `Signature` and `Text` say where a call's signature and its file's name are:
/// pointers, or what stands for them where ranks have no memory in common but the log.
template <class Signature, class Text>
class basic_call_log {
 public:
  static constexpr std::size_t length = 16;

  TUTTI_ALWAYS_INLINE void write(const call& c, Signature signature, Text file) noexcept {
    entries_[c.sequence % length].sequence.store(0, std::memory_order_relaxed);
    write_unread(c, signature, file);
  }
  /// The same where nobody reads meanwhile.
  TUTTI_ALWAYS_INLINE void write_unread(const call& c, Signature signature, Text file) noexcept {
    entry& e = entries_[c.sequence % length];
    e.signature.store(signature, std::memory_order_release);
    e.history.store(c.history, std::memory_order_release);
    e.count.store(c.count, std::memory_order_release);
    e.root.store(c.root, std::memory_order_release);
    e.file.store(file, std::memory_order_release);
    e.line.store(c.where.line, std::memory_order_release);
    e.sequence.store(c.sequence, std::memory_order_release);
  }

  /// The call with that number, if it is among the last ones; else one without a signature. `signature_at` and
  /// `text_at` give the pointers.
  template <class SignatureAt, class TextAt>
  call read(std::uint64_t sequence, SignatureAt&& signature_at, TextAt&& text_at) const {
    const entry& e = entries_[sequence % length];
    if (e.sequence.load(std::memory_order_acquire) != sequence) return {};
    const Signature signature = e.signature.load(std::memory_order_acquire);
    call c;
    c.history = e.history.load(std::memory_order_acquire);
    c.count = e.count.load(std::memory_order_acquire);
    c.root = e.root.load(std::memory_order_acquire);
    const Text file = e.file.load(std::memory_order_acquire);
    c.where.line = e.line.load(std::memory_order_acquire);
    c.sequence = sequence;
    if (e.sequence.load(std::memory_order_relaxed) != sequence || sequence == 0) return {};
    c.signature = signature_at(signature);
    c.where.file = text_at(file);
    return c;
  }

  /// The number of the last call, 0 if there was none.
  std::uint64_t last() const noexcept {
    std::uint64_t greatest = 0;
    for (const entry& e : entries_) {
      const std::uint64_t sequence = e.sequence.load(std::memory_order_acquire);
      if (sequence > greatest) greatest = sequence;
    }
    return greatest;
  }

 private:
  struct alignas(64) entry {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<Signature> signature{};
    std::atomic<std::uint64_t> history{0};
    std::atomic<std::size_t> count{0};
    std::atomic<int> root{-1};
    std::atomic<Text> file{};
    std::atomic<unsigned> line{0};
  };
  entry entries_[length];
};

/// That of a thread.
class call_log : public basic_call_log<const call_signature*, const char*> {
  using base = basic_call_log<const call_signature*, const char*>;

 public:
  TUTTI_ALWAYS_INLINE void write(const call& c) noexcept { base::write(c, c.signature, c.where.file); }
  TUTTI_ALWAYS_INLINE void write_unread(const call& c) noexcept { base::write_unread(c, c.signature, c.where.file); }
  call read(std::uint64_t sequence) const noexcept {
    return base::read(
        sequence, [](const call_signature* s) { return s; }, [](const char* text) { return text; });
  }
};

/// Neither was called, or both and they fit together.
inline bool alike(const call& a, const call& b) {
  if (a.signature == nullptr || b.signature == nullptr) return a.signature == b.signature;
  return a.fingerprint() == b.fingerprint();
}

/// The last calls of the two ranks are the same.
template <class Log>
bool same_last_call(const Log& one, const Log& other) {
  return alike(one.read(one.last()), other.read(other.last()));
}

/// The first call that the two ranks have in their logs and that is not the same; where one has called more, what the
/// other never called. Named in rank order, so that the text does not depend on who noticed.
template <class Log>
[[gnu::noinline, gnu::cold]] failure disagreement(int first, const Log& firsts, int second, const Log& seconds) {
  if (second < first) return disagreement(second, seconds, first, firsts);
  const auto words = [](const call& c) {
    return c.signature == nullptr ? std::string("nothing that fits") : c.describe();
  };
  const std::uint64_t last = firsts.last() > seconds.last() ? firsts.last() : seconds.last();
  // Counted down, since the number of a call that another process tells may be the greatest there is.
  for (std::uint64_t left = last < call_log::length ? last : call_log::length; left != 0; --left) {
    const std::uint64_t number = last - left + 1;
    const call a = firsts.read(number);
    const call b = seconds.read(number);
    if (alike(a, b)) continue;
    return {errc::mismatch, first,
            message() << "rank " << first << " called " << words(a) << "; rank " << second << " called " << words(b)};
  }
  return {errc::mismatch, first,
          message() << "rank " << first << " and rank " << second << " called different things some time ago"};
}

}  // namespace tutti::detail
