// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/shown_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// How many copies of messages a rank has for so many peers.
///
/// Where a message can always be read where it is, there are as many as can be under way to two peers, for whoever is
/// first. Else each peer has its share: one that waits for us must not wait for what others leave.
struct copy_shares {
  copy_shares(bool shows_all, int peers) {
    constexpr int ring = static_cast<int>(channel::capacity);
    if (shows_all) {
      copies = 2 * ring;
    } else if (peers > 1) {
      quota = std::clamp(12 / peers, 2, ring / 2);
      copies = std::max(quota * peers, 2 * ring);
      lead = std::max(copies / peers - quota, 2);
    }
  }

  int quota = static_cast<int>(channel::capacity);   // of one peer
  int copies = static_cast<int>(channel::capacity);  // in all
  // How many copies one peer may be ahead of another that gets the same. Where they are further apart each needs copies
  // of its own; so few are left when they have come together that the last one finds those of the first.
  int lead = static_cast<int>(channel::capacity);
};

/// Copies of messages that are too large for a slot, of those that are too small to be worth waiting for or that others
/// cannot read where they are: the sender goes on at once, and a copy is written over only after all its receivers have
/// consumed it. There are so many and no more: a sender that is far ahead waits. `Group` says what memory others read.
template <class Group>
class staging {
 public:
  /// `chunks` copies of up to `bytes` bytes (or larger ones, which allocate) that have at most `readers` readers each.
  staging(Group& group, int chunks, std::size_t bytes, int readers)
      : group_(&group),
        most_chunks_(static_cast<std::size_t>(chunks)),
        bytes_(bytes),
        most_readers_(static_cast<std::size_t>(readers)) {}
  staging(staging&&) noexcept = default;
  ~staging() {
    for (chunk* const c : chunks_) delete c;
  }

  struct reference {
    int peer;
    std::uint64_t message;
  };
  struct chunk {
    shown_memory<Group> memory;
    array_list<reference> readers;
    // What it is a copy of, and in which round it was made.
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    std::uint64_t round = 0;
  };

  /// A copy of those bytes, made in this round or now by `write(to)`, for one reader more; null if no chunk is free.
  /// All are allocated the first time. `consumed(peer, message)` says whether that reader needs its copy no longer.
  template <class Write, class Consumed>
  chunk* copy(const std::byte* from, std::size_t bytes, std::uint64_t round, reference reader, Write&& write,
              Consumed&& consumed) {
    while (chunks_.size() < most_chunks_) add();
    chunk* c = nullptr;
    for (chunk* const made : chunks_)
      if (made->from == from && made->round == round && made->bytes == bytes) c = made;
    if (c == nullptr) {
      c = take(consumed);
      if (c == nullptr) return nullptr;
      if (c->memory.size() < bytes) c->memory = {*group_, bytes};
      TUTTI_FAULT_POINT("staging.copy");
      write(c->memory.data());
      TUTTI_FAULT_POINT("staging.copied");
      c->from = from;
      c->bytes = bytes;
      c->round = round;
    }
    c->readers.push_back(reader);
    return c;
  }

 private:
  /// One that all readers have consumed, or null.
  template <class Consumed>
  chunk* take(Consumed&& consumed) {
    for (std::size_t i = 0; i < most_chunks_; ++i) {
      next_ = next_ + 1 == most_chunks_ ? 0 : next_ + 1;
      array_list<reference>& readers = chunks_[next_]->readers;
      while (!readers.empty() && consumed(readers.back().peer, readers.back().message)) readers.pop_back();
      if (readers.empty()) return chunks_[next_];
    }
    return nullptr;
  }

  void add() {
    chunks_.reserve(most_chunks_);
    array_list<reference> readers;
    readers.reserve(most_readers_);
    TUTTI_FAULT_POINT("staging.allocate");
    shown_memory<Group> memory(*group_, bytes_);
    chunks_.push_back(allocating(sizeof(chunk), "copies of messages", [] { return new chunk; }));
    chunks_.back()->memory = std::move(memory);
    chunks_.back()->readers = std::move(readers);
  }

  Group* group_;
  std::size_t most_chunks_;
  std::size_t bytes_;
  std::size_t most_readers_;
  array_list<chunk*> chunks_;
  std::size_t next_ = 0;
};

}  // namespace tutti::detail
