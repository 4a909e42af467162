// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/call_log.hpp>
#include <tutti/transport/message_log.hpp>
#include <tutti/transport/processes/family.hpp>
#include <tutti/transport/processes/shared_texts.hpp>

#include <cstdint>

namespace tutti::detail {

/// How one process writes calls into logs that all processes see, and reads those of others.
class shared_calls {
 public:
  using log = basic_call_log<std::uint64_t, std::uint64_t>;
  using message_log = basic_message_log<std::uint64_t, std::uint64_t>;

  explicit shared_calls(processes_family& family) : family_(&family) {}
  shared_calls(const shared_calls&) = delete;
  shared_calls& operator=(const shared_calls&) = delete;
  ~shared_calls() {
    for (const known_signature& known : read_) delete known.signature;
  }

  template <class Log>
  TUTTI_ALWAYS_INLINE void write(Log& to, const call& c) {
    const std::uint64_t signature = signatures_.find(c.signature, [&] { return family_->place_of(c.signature); });
    const std::uint64_t file = files_.find(c.where.file, [&] { return family_->place_of(c.where.file); });
    to.write(c, signature, file);
  }
  call read(const log& from, std::uint64_t number) {
    return from.read(
        number, [this](std::uint64_t place) { return signature_at(place); },
        [this](std::uint64_t place) { return family_->memory.object<const char>(place); });
  }
  /// The other end of a message that is received, as its sender wrote it, if it still knows.
  call find(const message_log& senders, const call& received) {
    return senders.find(
        received.from(), received.to(), received.history, [this](std::uint64_t place) { return signature_at(place); },
        [this](std::uint64_t place) { return family_->memory.object<const char>(place); });
  }

 private:
  struct known_signature {
    std::uint64_t place;
    const call_signature* signature;
  };
  const call_signature* signature_at(std::uint64_t place) {
    for (const known_signature& known : read_)
      if (known.place == place) return known.signature;
    read_.push_back({place, allocating(sizeof(call_signature), "the name of a call", [&] {
                       return new call_signature(family_->memory.object<shared_signature>(place)->read());
                     })});
    return read_.back().signature;
  }

  processes_family* family_;
  few_known<const call_signature*, std::uint64_t> signatures_;
  few_known<const char*, std::uint64_t> files_;
  array_list<known_signature> read_;
};

}  // namespace tutti::detail
