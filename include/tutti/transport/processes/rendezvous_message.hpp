// SPDX-License-Identifier: BSL-1.0
#pragma once

// What ranks say to each other before they share memory. Every message is one packet of a fixed size.

#include <tutti/core/error.hpp>
#include <tutti/transport/job_hash.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tutti::detail {

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

}  // namespace tutti::detail
