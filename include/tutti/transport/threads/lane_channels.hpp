// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/threads/channel.hpp>
#include <tutti/transport/threads/staging.hpp>
#include <tutti/transport/threads/waiting.hpp>

#include <sched.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// Messages from one rank to one other: copied ones lie in the slot or in a copy of the sender, others are read by the
/// receiver where the sender has them.
class lane_channels : public lane_waiting {
 public:
  lane_channels(threads_group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : lane_waiting(group, rank, index, limit),
        out_(static_cast<std::size_t>(group.size())),
        in_(static_cast<std::size_t>(group.size())),
        staging_(group.size() - 1) {
    direct_.reserve(static_cast<std::size_t>(group.size()));
  }

  TUTTI_ALWAYS_INLINE bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    if (o.to == nullptr) [[unlikely]]
      o.to = &group_->connect(index_, rank_, peer);
    if (o.queued != 0 || full(o)) [[unlikely]]
      return queue(peer, o, data, bytes, copy);
    return post(peer, o, data, bytes, copy, false);
  }

  TUTTI_ALWAYS_INLINE const std::byte* view(int peer, std::size_t bytes) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.from == nullptr) [[unlikely]]
      i.from = &group_->connect(index_, peer, rank_);
    const message_slot& s = i.from->slot(i.next);
    if (bytes > message_slot::first_line_bytes) s.prefetch_second_line();
    if (!s.arrived(i.next + 1)) {
      awaited_ = peer;
      if (!queue_.empty()) [[unlikely]]
        flush();
      return nullptr;
    }
    if (s.fingerprint != fingerprint_ || s.size() != bytes) [[unlikely]]
      refuse(peer, s, bytes);
    // The message tells what its sender has consumed: its own counter need not be read.
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    const auto more = static_cast<std::int32_t>(s.consumed - static_cast<std::uint32_t>(o.consumed));
    if (more > 0) o.consumed += static_cast<std::uint32_t>(more);
    return s.address == nullptr ? s.payload : s.address;
  }

  TUTTI_ALWAYS_INLINE void claim(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (!i.from->slot(i.next).direct()) return;
    claim_direct(i);
  }

  TUTTI_ALWAYS_INLINE void release(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    i.from->consumed.store(++i.next, std::memory_order_release);
    group_->state(peer).bell.ring();
  }

  bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    const std::byte* const from = view(peer, bytes);
    if (from == nullptr) return false;
    claim(peer);
    if (bytes != 0) std::memcpy(data, from, bytes);
    release(peer);
    return true;
  }

 protected:
  void begin_channels_round() { staged_from_ = nullptr; }

  TUTTI_ALWAYS_INLINE bool channels_settled() { return (queue_.empty() && direct_.empty()) || settle_channels(); }

  [[gnu::noinline]] bool settle_channels() {
    if (!queue_.empty()) {
      flush();
      if (!queue_.empty()) return false;
    }
    while (!direct_.empty()) {
      const int peer = direct_.back();
      outgoing& o = out_[static_cast<std::size_t>(peer)];
      if (!consumed(o, o.direct)) {
        awaited_ = peer;
        return false;
      }
      direct_.pop_back();
    }
    return true;
  }

  /// After the failure is known to all: nobody reads this rank's memory any more.
  void abandon_channels() noexcept {
    for (incoming& i : in_)
      if (i.from != nullptr) i.from->claimed.store(i.next, std::memory_order_release);
    for (outgoing& o : out_) {
      if (o.to == nullptr) continue;
      while (o.to->claimed.load(std::memory_order_seq_cst) > o.to->consumed.load(std::memory_order_acquire))
        sched_yield();
    }
    queue_.clear();
    direct_.clear();
  }

 private:
  struct outgoing {
    channel* to = nullptr;
    std::uint64_t posted = 0;
    std::uint64_t consumed = 0;  // as last seen
    std::uint64_t direct = 0;    // the last message that lies in the caller's memory
    std::uint32_t queued = 0;
  };
  struct incoming {
    channel* from = nullptr;
    std::uint64_t next = 0;
  };
  struct queued_send {
    int peer;
    const std::byte* data;
    std::size_t bytes;
    bool copied;
    std::byte held[message_slot::inline_bytes];  // a small copy, where `data` is null
  };
  static bool consumed(outgoing& o, std::uint64_t message) {
    if (o.consumed >= message) return true;
    o.consumed = o.to->consumed.load(std::memory_order_acquire);
    return o.consumed >= message;
  }
  static bool full(outgoing& o) {
    return o.posted >= channel::capacity && !consumed(o, o.posted + 1 - channel::capacity);
  }

  /// The sender's own memory is read only between here and `release`. A failing sender sets the failure, then makes
  /// every thread pass a fence, then waits for claims: either it sees this claim or this rank sees the failure.
  [[gnu::noinline]] void claim_direct(incoming& i) {
    i.from->claimed.store(i.next + 1, std::memory_order_relaxed);
    if (asymmetric_fence::available()) {
      asymmetric_fence::light();
    } else {
      i.from->claimed.exchange(i.next + 1, std::memory_order_seq_cst);
    }
    if (group_->failed()) [[unlikely]] {
      i.from->claimed.store(i.next, std::memory_order_release);
      group_->check();
    }
  }

  /// Whether the bytes have been copied.
  TUTTI_ALWAYS_INLINE bool post(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy,
                                bool copied) {
    message_slot& s = o.to->slot(o.posted);
    const std::uint64_t message = ++o.posted;
    if (copy && bytes <= message_slot::inline_bytes) {
      s.hold(data, bytes);
      s.address = nullptr;
    } else {
      if (copy && !copied) copy = stage(peer, message, data, bytes);
      s.address = data;
    }
    if (!copy) {
      if (o.direct <= o.consumed || direct_.empty() || direct_.back() != peer) direct_.push_back(peer);
      o.direct = message;
    }
    s.fingerprint = fingerprint_;
    s.describe(bytes, !copy);
    s.consumed = static_cast<std::uint32_t>(in_[static_cast<std::size_t>(peer)].next);
    s.turn.store(static_cast<std::uint32_t>(message), std::memory_order_release);
    group_->state(peer).bell.ring();
    return copy;
  }

  /// Makes `data` a copy of itself, unless there is no room for one.
  [[gnu::noinline]] bool stage(int peer, std::uint64_t message, const std::byte*& data, std::size_t bytes) {
    // The same bytes to several peers in one round are copied once.
    if (staged_from_ != data || staged_bytes_ != bytes) {
      staged_from_ = nullptr;
      staged_ = staging_.take(
          [this](int reader, std::uint64_t m) { return consumed(out_[static_cast<std::size_t>(reader)], m); });
      if (staged_ == nullptr) return false;
      std::memcpy(staged_->bytes, data, bytes);
      staged_from_ = data;
      staged_bytes_ = bytes;
    }
    staged_->readers.push_back({peer, message});
    data = staged_->bytes;
    return true;
  }

  [[gnu::noinline, gnu::cold]] bool queue(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy) {
    queue_.reserve(64);
    queue_.push_back({peer, data, bytes, copy, {}});
    queued_send& q = queue_.back();
    if (copy && bytes <= message_slot::inline_bytes) {
      q.data = nullptr;
      if (bytes != 0) std::memcpy(q.held, data, bytes);
    } else if (copy) {
      // As if the message were posted, whose number is known.
      q.copied = stage(peer, o.posted + o.queued + 1, q.data, bytes);
    }
    ++o.queued;
    return q.copied;
  }

  [[gnu::noinline, gnu::cold]] void flush() {
    // In order for each peer: a peer whose ring is full holds back only its own messages.
    for (queued_send* q = queue_.begin(); q != queue_.end();) {
      outgoing& o = out_[static_cast<std::size_t>(q->peer)];
      bool blocked = full(o);
      for (queued_send* earlier = queue_.begin(); earlier != q && !blocked; ++earlier)
        blocked = earlier->peer == q->peer;
      if (blocked) {
        awaited_ = q->peer;
        ++q;
        continue;
      }
      post(q->peer, o, q->data == nullptr ? q->held : q->data, q->bytes, q->copied, q->copied);
      --o.queued;
      queue_.erase(q);
    }
  }

  owned_array<outgoing> out_;
  owned_array<incoming> in_;
  array_list<int> direct_;
  staging staging_;
  staging::chunk* staged_ = nullptr;
  const std::byte* staged_from_ = nullptr;
  std::size_t staged_bytes_ = 0;
  array_list<queued_send> queue_;
};

}  // namespace tutti::detail
