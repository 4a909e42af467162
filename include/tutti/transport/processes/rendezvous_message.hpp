// SPDX-License-Identifier: BSL-1.0
#pragma once

// What ranks say to each other before they share memory. Every message is one packet of a fixed size.

#include <tutti/core/error.hpp>
#include <tutti/core/message.hpp>

#include <sys/types.h>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti::detail {

/// 128 bits that stand for a job of a user.
struct job_hash {
  std::uint64_t words[2];

  static job_hash of(std::string_view job, uid_t user) {
    job_hash h{{0x243F6A8885A308D3ULL ^ user, 0x13198A2E03707344ULL + job.size()}};
    for (const char c : job) {
      const auto byte = static_cast<unsigned char>(c);
      h.words[0] = mixed((h.words[0] ^ byte) + h.words[1]);
      h.words[1] = mixed(h.words[1] + 0x9E3779B97F4A7C15ULL * byte) ^ h.words[0];
    }
    h.words[0] = mixed(h.words[0] + h.words[1]);
    h.words[1] = mixed(h.words[1] + h.words[0]);
    return h;
  }

  std::string hexadecimal() const {
    std::string text;
    for (const std::uint64_t word : words)
      for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    return text;
  }
  friend bool operator==(const job_hash& a, const job_hash& b) {
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
  }

 private:
  // The finaliser of splitmix64, a bijection (Steele, Lea, Flood 2014).
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
};

/// Changes whenever the messages do.
inline constexpr std::uint32_t rendezvous_version = 1;

/// What the memory looks like to this program: bytes of a pointer and order of bytes.
inline constexpr std::uint64_t native_layout =
    sizeof(char*) * 10 + (std::endian::native == std::endian::little ? 1 : 0);

/// The first message of a rank.
struct rendezvous_hello {
  static constexpr std::uint64_t right_magic = 0x6F6C6C6568747574ULL;

  std::uint64_t magic = right_magic;
  std::uint32_t version = rendezvous_version;
  std::int32_t rank = 0;
  /// The bytes before this stay what they are in every version.
  static constexpr std::size_t lasting = 16;
  job_hash job{};
  std::uint64_t layout = native_layout;
  std::int32_t size = 0;
  std::int32_t unused = 0;
};
static_assert(sizeof(rendezvous_hello) == 48 && offsetof(rendezvous_hello, job) == rendezvous_hello::lasting);

/// Every other message, in either direction.
struct rendezvous_note {
  enum class what : std::uint32_t {
    welcome = 1,  ///< by rank 0: you are in; wait `remaining_ns` for the others
    descriptor,   ///< by rank 0: all have come, here it is; attach within `remaining_ns`
    attached,     ///< to rank 0: all is well here
    complete,     ///< by rank 0: all is well everywhere
    refused       ///< by either: it is all over, for this reason
  };
  what kind{};
  std::int32_t error = 0;
  std::int32_t peer = -1;
  std::uint32_t text_size = 0;
  std::int64_t remaining_ns = 0;
  char text[1000] = {};

  static rendezvous_note refusal(const failure& reason) {
    rendezvous_note n;
    n.kind = what::refused;
    n.error = static_cast<std::int32_t>(reason.kind);
    n.peer = reason.peer;
    n.text_size = static_cast<std::uint32_t>(reason.text.size() < sizeof n.text ? reason.text.size() : sizeof n.text);
    std::memcpy(n.text, reason.text.data(), n.text_size);
    return n;
  }
  /// The reason of a refusal. The values of a stranger do no harm.
  failure reason() const {
    const bool known = error >= static_cast<int>(errc::usage) && error <= static_cast<int>(errc::resource);
    return {known ? static_cast<errc>(error) : errc::peer_failed, peer,
            std::string(text, text_size < sizeof text ? text_size : sizeof text)};
  }
};
static_assert(sizeof(rendezvous_note) == 1024);

/// "rank 3" or "ranks 1, 4-6": those below `size` for which `listed(rank)`; appended to the text.
template <class Listed>
void list_ranks(message& text, int size, Listed&& listed) {
  int count = 0;
  for (int rank = 0; rank < size; ++rank) count += listed(rank) ? 1 : 0;
  text << (count == 1 ? "rank" : "ranks");
  const char* before = " ";
  for (int rank = 0; rank < size; ++rank) {
    if (!listed(rank)) continue;
    int last = rank;
    while (last + 1 < size && listed(last + 1)) ++last;
    text << before << rank;
    if (last > rank) text << (last == rank + 1 ? ", " : "-") << last;
    before = ", ";
    rank = last;
  }
}

}  // namespace tutti::detail
