// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a rank called, for another process to compare: the calls themselves and all texts that describe them.

#include <tutti/core/call.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/message_log.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::detail {

/// One call with its texts, which are cut where they are too long to be sent. What decides whether two calls fit
/// together is sent as numbers, so that a cut text changes nothing but what is told.
class recorded_call {
 public:
  static constexpr std::size_t most_text = 255;
  static constexpr std::size_t texts = 5;  // collective, algorithm, type, operation, file

  recorded_call() = default;
  explicit recorded_call(const call& c)
      : sequence(c.sequence),
        history(c.history),
        count(c.count),
        hash(c.signature->hash),
        element_size(c.signature->element_size),
        root(c.root),
        line(c.where.line),
        text{first_of(c.signature->collective), first_of(c.signature->algorithm), first_of(c.signature->type),
             first_of(c.signature->operation), last_of(c.where.file)} {}

  /// The call. Its signature and the name of its file lie here, and stay valid as long as this object stays where it
  /// is and as it is.
  call read() const {
    signature_ = call_signature(text[0], text[1], text[2], text[3], static_cast<std::size_t>(element_size));
    signature_.hash = hash;
    return {&signature_, sequence, history, static_cast<std::size_t>(count), root, {text[4].c_str(), line}};
  }

  /// `field(f)` for each field f that travels, in that order: of a call to be written or, `Call` not const, to be read.
  template <class Call, class Field>
  static void walk(Call& c, Field&& field) {
    field(c.sequence);
    field(c.history);
    field(c.count);
    field(c.hash);
    field(c.element_size);
    field(c.root);
    field(c.line);
    for (auto& each : c.text) field(each);
  }

  std::uint64_t sequence = 0;
  std::uint64_t history = 0;
  std::uint64_t count = 0;
  std::uint64_t hash = 0;
  std::uint64_t element_size = 0;
  std::int32_t root = -1;
  std::uint32_t line = 0;
  std::array<std::string, texts> text;

 private:
  static std::string first_of(std::string_view whole) { return std::string(whole.substr(0, most_text)); }
  // The end of a path says more than its beginning.
  static std::string last_of(std::string_view path) {
    return std::string(path.size() > most_text ? path.substr(path.size() - most_text) : path);
  }

  mutable call_signature signature_{{}, {}, {}, {}, 0};
};

/// The last calls of a rank, as `disagreement` reads a log. Stays where it is while what it gave is in use.
class recorded_calls {
 public:
  static constexpr std::size_t most = call_log::length;

  recorded_calls() = default;
  /// What the log holds now.
  explicit recorded_calls(const call_log& log) {
    const std::uint64_t last = log.last();
    for (std::uint64_t left = last < most ? last : most; left != 0; --left)
      if (const call c = log.read(last - left + 1); c.signature != nullptr) add(recorded_call(c));
  }

  /// The messages in the log, which is that of rank `from`.
  recorded_calls(const message_log& log, int from) {
    log.each(from, [this](const call& c) { add(recorded_call(c)); });
  }

  /// One more, as long as there is room; whether there was.
  bool add(recorded_call c) {
    if (size_ == most) return false;
    calls_[size_++] = std::move(c);
    return true;
  }
  std::size_t size() const { return size_; }
  const recorded_call& operator[](std::size_t i) const { return calls_[i]; }

  /// The number of the last call, 0 if there was none.
  std::uint64_t last() const {
    std::uint64_t greatest = 0;
    for (std::size_t i = 0; i < size_; ++i)
      if (calls_[i].sequence > greatest) greatest = calls_[i].sequence;
    return greatest;
  }
  /// The call with that number, or one without a signature.
  call read(std::uint64_t sequence) const {
    for (std::size_t i = 0; i < size_; ++i)
      if (calls_[i].sequence == sequence) return calls_[i].read();
    return {};
  }
  /// The message of that number to that rank, or a call without a signature.
  call find(int to, std::uint64_t number) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const call c = calls_[i].read();
      if (c.is_message() && c.to() == to && c.history == number) return c;
    }
    return {};
  }

 private:
  std::array<recorded_call, most> calls_;
  std::size_t size_ = 0;
};

}  // namespace tutti::detail
