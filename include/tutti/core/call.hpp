// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call_site.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// What is known about a call at compile time. One static object for each combination of collective, algorithm, element
/// type and operation.
struct call_signature {
  std::string_view collective;
  std::string_view algorithm;
  std::string_view type;
  std::string_view operation;
  std::size_t element_size;
  std::uint64_t hash;

  constexpr call_signature(std::string_view c, std::string_view a, std::string_view t, std::string_view o,
                           std::size_t s)
      : collective(c), algorithm(a), type(t), operation(o), element_size(s), hash(0) {
    std::uint64_t h = 14695981039346656037ULL;  // FNV-1a
    for (const auto text : {collective, algorithm, type, operation}) {
      for (const char character : text) h = (h ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
      h = (h ^ 0x1f) * 1099511628211ULL;
    }
    hash = (h ^ element_size) * 1099511628211ULL;
  }
};

/// What is known at compile time of one end of a message: `verb` and `direction` (`call::outgoing`, `call::incoming`)
/// are for describing it; the hash is the same at both ends.
constexpr call_signature message_signature(std::string_view verb, std::string_view direction, std::string_view type,
                                           std::size_t element_size) {
  call_signature s(verb, {}, type, direction, element_size);
  s.hash = call_signature("message", {}, type, {}, element_size).hash;
  return s;
}

/// One call of a collective on one rank. `sequence` counts the calls on the communicator from 1; `history` is the
/// fingerprint of the call before; `root` is -1 where the collective has none.
///
/// Or one end of a message between two ranks, which is no collective: `sequence` tells which two (`between`), and
/// `history` counts the messages from the one rank to the other, from 1.
struct call {
  const call_signature* signature = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t history = 0;
  std::size_t count = 0;
  int root = -1;
  call_site where = {};

  /// What stands for the sequence of a message: no collective ever has such a one.
  static constexpr std::uint64_t between(int from, int to) {
    return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(from) << 31 | static_cast<std::uint64_t>(to);
  }
  TUTTI_ALWAYS_INLINE constexpr bool is_message() const { return sequence >> 63 != 0; }
  // Of a message: between whom, whether this is the sender's end, and who is at the other.
  constexpr int from() const { return static_cast<int>(sequence >> 31 & 0x7fffffff); }
  constexpr int to() const { return static_cast<int>(sequence & 0x7fffffff); }
  constexpr bool is_outgoing() const { return signature->operation == outgoing; }
  constexpr int peer() const { return is_outgoing() ? to() : from(); }
  static constexpr std::string_view outgoing = "to";
  static constexpr std::string_view incoming = "from";

  /// A number that is the same on every rank exactly if this call and all before it fit together (up to 64-bit hash
  /// collisions). It rides in every message.
  TUTTI_ALWAYS_INLINE constexpr std::uint64_t fingerprint() const {
    // What is known before the call goes into one factor, what comes with it into the other: it waits for one product.
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ULL;
    const std::uint64_t before = (history ^ signature->hash) + sequence * odd;
    const std::uint64_t with = count + (static_cast<std::uint64_t>(root) + 2) * odd;
    const product p = static_cast<product>(before) * with;
    return static_cast<std::uint64_t>(p) ^ static_cast<std::uint64_t>(p >> 64);
  }

  /// Stands for `fingerprint()` in the history of the next call where no message carries that: as different for
  /// different calls, and quicker to compute.
  TUTTI_ALWAYS_INLINE constexpr std::uint64_t mark() const {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ULL;
    return (history ^ (signature->hash + count + (static_cast<std::uint64_t>(root) + 2) * odd)) * odd;
  }

  /// The call in words: "allreduce of 100 x float (4 bytes each) with std::plus<void> by ring, call 7 at
  /// main.cpp:12"; "send of 100 x float (4 bytes each) to rank 2, message 7 at main.cpp:12".
  [[gnu::noinline, gnu::cold]] std::string describe() const {
    if (signature == nullptr) return "no call";
    message text;
    text << signature->collective;
    if (!signature->type.empty())
      text << " of " << count << " x " << signature->type << " (" << signature->element_size << " bytes each)";
    if (is_message()) {
      text << " " << signature->operation << " rank " << peer() << ", message " << history << " at " << where.file
           << ":" << where.line;
      return text;
    }
    if (!signature->operation.empty()) text << " with " << signature->operation;
    if (root >= 0) text << " root " << root;
    text << " by " << signature->algorithm << ", call " << sequence << " at " << where.file << ":" << where.line;
    return text;
  }

 private:
  __extension__ using product = unsigned __int128;
};

}  // namespace tutti
