// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/heap_memory.hpp>
#include <tutti/transport/shared_memory/lane_waiting.hpp>
#include <tutti/transport/shared_memory/send_queues.hpp>
#include <tutti/transport/shared_memory/staging.hpp>

#include <sched.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// Messages from one rank to one other: copied ones lie in the slot or in a copy of the sender, others are read by the
/// receiver where the sender has them.
template <class Group>
class lane_channels : public lane_waiting<Group> {
  using waiting = lane_waiting<Group>;

 public:
  lane_channels(Group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : waiting(group, rank, index, limit),
        out_(static_cast<std::size_t>(group.size())),
        in_(static_cast<std::size_t>(group.size())),
        quota_(quota_for(group.size() - 1)),
        small_(group, chunks_for(group.size() - 1), small_bytes, group.size() - 1),
        pieces_(group, chunks_for(group.size() - 1), group.piece_bytes(index), group.size() - 1) {
    direct_.reserve(static_cast<std::size_t>(group.size()));
    waiting_.reserve(static_cast<std::size_t>(group.size()));
  }

  TUTTI_ALWAYS_INLINE bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    if (o.to == nullptr) [[unlikely]]
      o.to = &group_->connect(index_, rank_, peer);
    TUTTI_FAULT_POINT("channel.send");
    if (!o.queue.empty() || full(o)) [[unlikely]]
      return queue(peer, o, data, bytes, copy);
    if constexpr (!Group::shows_all) {
      if (!group_->shows(data, bytes)) {
        if (readable(o, bytes)) return post_remote(peer, o, data, bytes);
        copy = true;
      }
    }
    if (copy && bytes > message_slot::inline_bytes) return send_copy(peer, o, data, bytes);
    post(peer, o, data, bytes, copy);
    return copy;
  }

  TUTTI_ALWAYS_INLINE const std::byte* view(int peer, std::size_t bytes,
                                            [[maybe_unused]] std::byte* landing = nullptr) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.from == nullptr) [[unlikely]]
      accept(i, peer);
    const message_slot& s = i.from->slot(i.next);
    if (bytes > message_slot::first_line_bytes) s.prefetch_second_line();
    if (!s.arrived(i.next + 1)) {
      awaited_ = peer;
      send_waiting();
      return nullptr;
    }
    if (s.fingerprint != fingerprint_ || s.size() != bytes) [[unlikely]]
      this->refuse(peer, s, bytes);
    TUTTI_FAULT_POINT("channel.arrived");
    // The message tells what its sender has consumed: its own counter need not be read.
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    const auto more = static_cast<std::int32_t>(s.consumed - static_cast<std::uint32_t>(o.consumed));
    if (more > 0) o.consumed += static_cast<std::uint32_t>(more);
    if constexpr (!Group::shows_all) {
      // When this rank first looked for a message the peer may not have been there yet.
      if (i.next == 0) [[unlikely]]
        offer_to_read(i, peer);
      if (s.remote()) return fetch(peer, i, s, landing);
    }
    if (s.where == 0) return s.payload;
    return s.direct() && this->has_withdrawn(peer) ? nullptr : group_->at(s.where);
  }

  TUTTI_ALWAYS_INLINE void claim(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if constexpr (Group::waits_for_readers) {
      if (i.from->slot(i.next).direct()) claim_direct(peer, i);
    }
  }

  TUTTI_ALWAYS_INLINE void release(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if constexpr (!Group::waits_for_readers) {
      if (i.from->slot(i.next).direct()) {
        group_->check_after_reading();
        if (this->has_withdrawn(peer)) [[unlikely]]
          await_end();
      }
    }
    TUTTI_FAULT_POINT("channel.release");
    i.from->consumed.store(++i.next, std::memory_order_release);
    TUTTI_FAULT_POINT("channel.consumed");
    this->bell(peer).ring();
    // One message taken in is room to send another.
    if constexpr (!Group::shows_all) send_waiting();
  }

  bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    const std::byte* const from = view(peer, bytes, data);
    if (from == nullptr) return false;
    claim(peer);
    if (bytes != 0 && from != data) std::memcpy(data, from, bytes);
    release(peer);
    return true;
  }

 protected:
  using waiting::awaited_, waiting::call_, waiting::fingerprint_, waiting::group_, waiting::index_, waiting::rank_;

  void begin_channels_round() { ++round_number_; }

  /// To be called wherever a rank waits: others may wait for what it has not sent for want of room.
  TUTTI_ALWAYS_INLINE void send_waiting() {
    if (!waiting_.empty()) [[unlikely]]
      flush();
  }

  TUTTI_ALWAYS_INLINE bool channels_settled() { return (waiting_.empty() && direct_.empty()) || settle_channels(); }

  [[gnu::noinline]] bool settle_channels() {
    if (!waiting_.empty()) {
      flush();
      if (!waiting_.empty()) return false;
    }
    TUTTI_FAULT_POINT("channel.settle");
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

  /// What this rank reads is not there any more: it goes no further, and throws when it is known why.
  [[noreturn, gnu::noinline, gnu::cold]] void await_end() {
    release_claims();
    for (group_->check();;) this->idle();
  }
  void release_claims() noexcept {
    for (incoming& i : in_)
      if (i.from != nullptr) i.from->claimed.store(i.next, std::memory_order_release);
  }

  /// After all can know that it does so: nobody reads this rank's memory any more.
  void abandon_channels() noexcept {
    TUTTI_FAULT_POINT("channel.abandon");
    if constexpr (Group::waits_for_readers) {
      release_claims();
      for (outgoing& o : out_) {
        if (o.to == nullptr) continue;
        while (o.to->claimed.load(std::memory_order_seq_cst) > o.to->consumed.load(std::memory_order_acquire))
          sched_yield();
      }
    }
    for (const int peer : waiting_) out_[static_cast<std::size_t>(peer)].queue = {};
    waiting_.clear();
    queues_.clear();
    direct_.clear();
  }

 private:
  struct outgoing {
    channel* to = nullptr;
    std::uint64_t posted = 0;
    std::uint64_t consumed = 0;  // as last seen
    std::uint64_t direct = 0;    // the last message that lies in the caller's memory
    send_queues::queue queue;
  };
  struct incoming {
    channel* from = nullptr;
    std::uint64_t next = 0;
    heap_memory fetched;  // what was read from the memory of its process
  };
  static constexpr std::size_t small_bytes = 4096;

  // Where a message can always be read where it is, there are as many copies as can be under way to two peers, for
  // whoever is first. Else each peer has its share: one that waits for us must not wait for what others leave.
  static int quota_for(int peers) {
    if (Group::shows_all || peers == 0) return channel::capacity;
    const int share = 2 * static_cast<int>(channel::capacity) / peers;
    return share < 2 ? 2 : share > static_cast<int>(channel::capacity) ? static_cast<int>(channel::capacity) : share;
  }
  static int chunks_for(int peers) {
    return Group::shows_all ? 2 * static_cast<int>(channel::capacity) : quota_for(peers) * peers;
  }

  static bool consumed(outgoing& o, std::uint64_t message) {
    if (o.consumed >= message) return true;
    o.consumed = o.to->consumed.load(std::memory_order_acquire);
    return o.consumed >= message;
  }
  static bool full(outgoing& o) {
    return o.posted >= channel::capacity && !consumed(o, o.posted + 1 - channel::capacity);
  }

  /// The sender's own memory is read only between here and `release`. A sender that fails or withdraws says so, then
  /// makes every thread pass a fence, then waits for claims: either it sees this claim or this rank sees what it says.
  [[gnu::noinline]] void claim_direct(int peer, incoming& i) {
    i.from->claimed.store(i.next + 1, std::memory_order_relaxed);
    if (asymmetric_fence::available()) {
      asymmetric_fence::light();
    } else {
      i.from->claimed.exchange(i.next + 1, std::memory_order_seq_cst);
    }
    if (group_->failed() || this->has_withdrawn(peer)) [[unlikely]]
      await_end();
  }

  [[gnu::noinline, gnu::cold]] void accept(incoming& i, int peer) {
    i.from = &group_->connect(index_, peer, rank_);
    offer_to_read(i, peer);
  }
  /// Tells the peer whether this rank can read the memory of its process, as soon as that is known.
  [[gnu::noinline, gnu::cold]] void offer_to_read(incoming& i, int peer) {
    if constexpr (!Group::shows_all) {
      if (i.from->reads.load(std::memory_order_relaxed) || !group_->can_read(peer)) return;
      i.from->reads.store(true, std::memory_order_release);
    }
  }
  /// Brings a message here from the memory of its sender's process: to `landing`, or if that is null to memory of the
  /// lane.
  [[gnu::noinline]] const std::byte* fetch(int peer, incoming& i, const message_slot& s, std::byte* landing) {
    const std::size_t bytes = s.size();
    if (landing == nullptr) {
      if (i.fetched.size() < bytes) i.fetched = heap_memory(bytes);
      landing = i.fetched.data();
    }
    const int refused = this->has_withdrawn(peer) ? 0 : group_->read(peer, landing, s.where, bytes);
    if (this->has_withdrawn(peer)) [[unlikely]]
      return nullptr;
    if (refused != 0) group_->cannot_read(peer, refused);
    return landing;
  }
  /// Whether the peer had better read these bytes in the memory of this process: not from a root, which has nothing
  /// else to do than to copy while the peer takes in what was copied before.
  bool readable(const outgoing& o, std::size_t bytes) const {
    if constexpr (Group::shows_all) {
      return false;
    } else {
      return bytes >= Group::least_read && call_.root < 0 && o.to->reads.load(std::memory_order_acquire);
    }
  }

  TUTTI_ALWAYS_INLINE void post(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy) {
    message_slot& s = o.to->slot(o.posted);
    const std::uint64_t message = ++o.posted;
    if (copy) {
      s.hold(data, bytes);
      s.where = 0;
    } else {
      s.where = group_->where(data);
      hold_until(peer, o, message);
    }
    tell(peer, s, message, bytes, !copy);
  }
  /// The memory of a message stays as it is until the peer has read it.
  TUTTI_ALWAYS_INLINE void hold_until(int peer, outgoing& o, std::uint64_t message) {
    if (o.direct <= o.consumed || direct_.empty() || direct_.back() != peer) direct_.push_back(peer);
    o.direct = message;
  }
  /// False: the bytes are not copied.
  bool post_remote(int peer, outgoing& o, const std::byte* data, std::size_t bytes) {
    message_slot& s = o.to->slot(o.posted);
    const std::uint64_t message = ++o.posted;
    s.where = reinterpret_cast<std::uintptr_t>(data);
    hold_until(peer, o, message);
    tell(peer, s, message, bytes, true, true);
    return false;
  }

  TUTTI_ALWAYS_INLINE void tell(int peer, message_slot& s, std::uint64_t message, std::size_t bytes, bool direct,
                                bool remote = false) {
    s.fingerprint = fingerprint_;
    s.describe(bytes, direct, remote);
    s.consumed = static_cast<std::uint32_t>(in_[static_cast<std::size_t>(peer)].next);
    TUTTI_FAULT_POINT("channel.post");
    s.turn.store(static_cast<std::uint32_t>(message), std::memory_order_release);
    TUTTI_FAULT_POINT("channel.posted");
    this->bell(peer).ring();
  }

  /// A copy of the bytes that lasts until the peer has consumed the message of that number; null if there is no room.
  std::byte* stage(int peer, std::uint64_t message, const std::byte* data, std::size_t bytes) {
    if constexpr (!Group::shows_all) {
      const auto share = static_cast<std::uint64_t>(quota_);
      if (message > share && !consumed(out_[static_cast<std::size_t>(peer)], message - share)) return nullptr;
    }
    const auto read = [this](int reader, std::uint64_t m) {
      return consumed(out_[static_cast<std::size_t>(reader)], m);
    };
    auto& room = bytes <= small_bytes ? small_ : pieces_;
    auto* const chunk = room.copy(data, bytes, round_number_, {peer, message}, read);
    return chunk == nullptr ? nullptr : chunk->memory.data();
  }

  void post_copy(int peer, outgoing& o, const std::byte* copy, std::size_t bytes) {
    message_slot& s = o.to->slot(o.posted);
    s.where = group_->where(copy);
    tell(peer, s, ++o.posted, bytes, false);
  }

  [[gnu::noinline]] bool send_copy(int peer, outgoing& o, const std::byte* data, std::size_t bytes) {
    if (const std::byte* const copy = stage(peer, o.posted + 1, data, bytes)) {
      post_copy(peer, o, copy, bytes);
      return true;
    }
    // The receiver reads it where it is, or it waits until there is room.
    if (!Group::shows_all && !group_->shows(data, bytes)) return queue(peer, o, data, bytes, false);
    post(peer, o, data, bytes, false);
    return false;
  }

  [[gnu::noinline, gnu::cold]] bool queue(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy) {
    TUTTI_FAULT_POINT("channel.queue");
    const std::uint32_t place = queues_.take();
    send_queues::entry& q = queues_[place];
    q.data = data;
    q.bytes = bytes;
    q.fingerprint = fingerprint_;
    q.copied = false;
    if (copy && bytes <= message_slot::inline_bytes) {
      q.data = nullptr;
      q.copied = true;
      if (bytes != 0) std::memcpy(q.held, data, bytes);
    } else if (copy && o.queue.empty()) {
      // As if the message were posted, whose number is known.
      if (const std::byte* const there = stage(peer, o.posted + 1, data, bytes)) {
        q.data = there;
        q.copied = true;
      }
    }
    if (o.queue.empty()) waiting_.push_back(peer);
    queues_.append(o.queue, place);
    return q.copied;
  }

  /// Sends what there is room for, in order for each peer: a peer whose ring is full holds back only its own messages.
  [[gnu::noinline, gnu::cold]] void flush() {
    TUTTI_FAULT_POINT("channel.flush");
    for (int* peer = waiting_.begin(); peer != waiting_.end();) {
      outgoing& o = out_[static_cast<std::size_t>(*peer)];
      while (!o.queue.empty() && !full(o) && send_queued(*peer, o, queues_.front(o.queue))) queues_.pop(o.queue);
      if (o.queue.empty()) {
        waiting_.erase(peer);
      } else {
        awaited_ = *peer;
        ++peer;
      }
    }
  }
  bool send_queued(int peer, outgoing& o, const send_queues::entry& q) {
    const std::uint64_t now = std::exchange(fingerprint_, q.fingerprint);
    const bool sent = send_as_queued(peer, o, q);
    fingerprint_ = now;
    return sent;
  }
  bool send_as_queued(int peer, outgoing& o, const send_queues::entry& q) {
    if (q.data == nullptr) {
      post(peer, o, q.held, q.bytes, true);
    } else if (q.copied) {
      post_copy(peer, o, q.data, q.bytes);
    } else if (Group::shows_all || group_->shows(q.data, q.bytes)) {
      post(peer, o, q.data, q.bytes, false);
    } else if (readable(o, q.bytes)) {
      post_remote(peer, o, q.data, q.bytes);
    } else if (q.bytes <= message_slot::inline_bytes) {
      post(peer, o, q.data, q.bytes, true);
    } else {
      const std::byte* const copy = stage(peer, o.posted + 1, q.data, q.bytes);
      if (copy == nullptr) return false;
      post_copy(peer, o, copy, q.bytes);
    }
    return true;
  }

  owned_array<outgoing> out_;
  owned_array<incoming> in_;
  array_list<int> direct_;
  int quota_;  // of one peer
  // Copies: those of small messages, and those of what others could not read where it is.
  staging<Group> small_;
  staging<Group> pieces_;
  std::uint64_t round_number_ = 0;
  array_list<int> waiting_;  // peers for whom messages wait
  send_queues queues_;
};

}  // namespace tutti::detail
