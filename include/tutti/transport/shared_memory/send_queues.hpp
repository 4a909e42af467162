// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/shared_memory/channel.hpp>

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

/// Messages that wait for room, in a queue for each peer; all share one array, which grows where it must.
class send_queues {
  static constexpr std::uint32_t none = UINT32_MAX;

 public:
  struct entry {
    const std::byte* data;
    std::size_t bytes;
    std::uint64_t fingerprint;  // of the call in which it was sent
    std::uint32_t next;
    bool copied;                                 // `data` is a copy
    std::byte held[message_slot::inline_bytes];  // a small copy, where `data` is null
  };
  class queue {
   public:
    bool empty() const { return first_ == none; }

   private:
    friend send_queues;
    std::uint32_t first_ = none;
    std::uint32_t last_ = none;
  };

  /// An entry that is in no queue yet.
  std::uint32_t take() {
    if (unused_ != none) {
      const std::uint32_t place = unused_;
      unused_ = entries_[place].next;
      return place;
    }
    entries_.reserve(64);
    entries_.push_back({});
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  entry& operator[](std::uint32_t place) { return entries_[place]; }
  void append(queue& q, std::uint32_t place) {
    entries_[place].next = none;
    (q.empty() ? q.first_ : entries_[q.last_].next) = place;
    q.last_ = place;
  }

  const entry& front(const queue& q) const { return entries_[q.first_]; }
  const entry& back(const queue& q) const { return entries_[q.last_]; }
  void pop(queue& q) {
    const std::uint32_t done = q.first_;
    q.first_ = entries_[done].next;
    entries_[done].next = unused_;
    unused_ = done;
  }

  /// Forgets all entries; every queue has to be forgotten too.
  void clear() {
    entries_.clear();
    unused_ = none;
  }

 private:
  array_list<entry> entries_;
  std::uint32_t unused_ = none;
};

}  // namespace tutti::detail
