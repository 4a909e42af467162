// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/threads/channel.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// Copies of messages that are too large for a slot and too small to be worth waiting for: the sender goes on at once,
/// and a copy is written over only after all its receivers have consumed it. There are so many and no more: a sender
/// that is far ahead waits.
class staging {
 public:
  static constexpr std::size_t chunk_bytes = 4096;

  /// For copies that have at most `readers` readers each.
  explicit staging(int readers) : most_readers_(static_cast<std::size_t>(readers)) {}
  staging(staging&&) = default;
  ~staging() {
    for (chunk* const c : chunks_) delete c;
  }

  struct reference {
    int peer;
    std::uint64_t message;
  };
  struct chunk {
    alignas(64) std::byte bytes[chunk_bytes];
    array_list<reference> readers;
  };

  /// A chunk that `consumed(peer, message)` confirms for every reader, or null. All are made the first time.
  template <class Consumed>
  chunk* take(Consumed&& consumed) {
    while (chunks_.size() < most_chunks) add();
    for (std::size_t i = 0; i < most_chunks; ++i) {
      next_ = next_ + 1 == most_chunks ? 0 : next_ + 1;
      array_list<reference>& readers = chunks_[next_]->readers;
      while (!readers.empty() && consumed(readers.back().peer, readers.back().message)) readers.pop_back();
      if (readers.empty()) return chunks_[next_];
    }
    return nullptr;
  }

 private:
  // As many as can be under way to two peers.
  static constexpr std::size_t most_chunks = 2 * channel::capacity;

  void add() {
    chunks_.reserve(most_chunks);
    array_list<reference> readers;
    readers.reserve(most_readers_);
    chunks_.push_back(new chunk);
    chunks_.back()->readers = std::move(readers);
  }

  array_list<chunk*> chunks_;
  std::size_t next_ = 0;
  std::size_t most_readers_;
};

}  // namespace tutti::detail
