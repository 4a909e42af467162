// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::detail {

/// Events in the order of their times `e.at`, those of one time in the order in which they were pushed. A radix heap:
/// no event may be pushed that is earlier than the last one popped. Times are not negative, so their bits are ordered
/// as they are. An event moves through few buckets, sequentially, which with a million events is several times as fast
/// as a binary heap. Source: Ahuja, Mehlhorn, Orlin, Tarjan, JACM 37, 1990.
template <class Event>
class event_queue {
 public:
  [[gnu::flatten]] void push(const Event& e) {  // so that the event is put together where it will be
    buckets_[bucket_of(e)].push_back(e);
    ++size_;
  }

  bool empty() const { return size_ == 0; }

  /// The earliest event, which is taken out. Requires `!empty()`.
  Event pop() {
    if (next_ == buckets_[0].size()) refill();
    --size_;
    return buckets_[0][next_++];
  }

  /// The event that will be popped `ahead` events from now if that is known already, else null.
  const Event* peek(std::size_t ahead) const {
    return next_ + ahead < buckets_[0].size() ? &buckets_[0][next_ + ahead] : nullptr;
  }

 private:
  // Bucket 0 holds the events of the current time, bucket b those whose time differs from it in bit b - 1 first.
  static std::uint64_t key(const Event& e) { return std::bit_cast<std::uint64_t>(e.at); }
  std::size_t bucket_of(const Event& e) const { return static_cast<std::size_t>(std::bit_width(key(e) ^ now_)); }

  void refill() {
    buckets_[0].clear();
    next_ = 0;
    std::size_t lowest = 1;
    while (buckets_[lowest].empty()) ++lowest;
    std::vector<Event>& from = buckets_[lowest];
    now_ = key(from.front());
    for (const Event& e : from) now_ = std::min(now_, key(e));
    for (const Event& e : from) buckets_[bucket_of(e)].push_back(e);
    from.clear();
  }

  std::uint64_t now_ = 0;
  std::size_t next_ = 0;
  std::size_t size_ = 0;
  std::array<std::vector<Event>, 65> buckets_;
};

}  // namespace tutti::detail
