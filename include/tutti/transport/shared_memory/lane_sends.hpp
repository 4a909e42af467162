// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/fold.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/delivery.hpp>
#include <tutti/transport/shared_memory/heap_memory.hpp>
#include <tutti/transport/shared_memory/lane_waiting.hpp>
#include <tutti/transport/shared_memory/send_queues.hpp>
#include <tutti/transport/shared_memory/staging.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tutti::detail {

/// What one rank sends to others, one channel to each: copied messages lie in the slot or in a copy of the sender,
/// others are read by the receiver where the sender has them.
template <class Group>
class lane_sends : public lane_waiting<Group> {
  using waiting = lane_waiting<Group>;

 public:
  lane_sends(Group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : waiting(group, rank, index, limit),
        peers_(static_cast<std::size_t>(group.size())),
        shares_(Group::shows_all, group.size() - 1),
        small_(group, shares_.copies, small_bytes, group.size() - 1),
        pieces_(group, shares_.copies, group.piece_bytes(index), group.size() - 1),
        furthest_lead_(static_cast<std::size_t>(shares_.lead) * group.piece_bytes(index)) {
    direct_.reserve(static_cast<std::size_t>(group.size()));
    waiting_.reserve(static_cast<std::size_t>(group.size()));
  }

  TUTTI_ALWAYS_INLINE bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    correspondent& c = reach(peer);
    TUTTI_FAULT_POINT("channel.send");
    if (!c.queue.empty() || full(c)) [[unlikely]]
      return queue(peer, c, data, bytes, copy);
    copy = copy || !shows(data, bytes);
    if (copy && bytes > message_slot::inline_bytes) return send_copy(peer, c, data, bytes);
    post(peer, c, data, bytes, copy);
    return copy;
  }

  /// Whether the peers can read these bytes where they are.
  TUTTI_ALWAYS_INLINE bool shows(const std::byte* data, std::size_t bytes) const {
    return Group::shows_all || group_->shows(data, bytes);
  }

  /// Copies what is sent to that peer next from where it is copied to, in the way that takes both the least time.
  void write_copy(int peer, std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes < delivery_choice::least_bytes) {
      if (bytes != 0) std::memcpy(to, from, bytes);
    } else if (write_timed_copy(peer, to, from, bytes, timed_ == nullptr)) {
      await_reader(peer, to);
    }
  }
  /// Calls `write(streamed)`, which computes what is sent to that peer later from where it is then; likewise.
  template <class Write>
  void write_result(int peer, const std::byte* to, std::size_t bytes, std::size_t of, Write&& write) {
    if (of < delivery_choice::least_result || !shows(to, bytes) || call_.root == rank_) {
      write(false);  // it is small, or will be copied, or not be sent, since it is the root's
      return;
    }
    correspondent& c = reach(peer);
    delivery_choice& choice = choice_of(c);
    const auto [way, to_time] = choice.next_result(of, c.to->report);
    if (choice.write({way, to_time && timed_ == nullptr}, bytes, write)) await_reader(peer, to);
  }

 protected:
  using waiting::awaited_, waiting::call_, waiting::fingerprint_, waiting::group_, waiting::index_, waiting::rank_;

  struct correspondent {
    channel* to = nullptr;
    std::uint64_t posted = 0;
    std::uint64_t consumed = 0;  // as last seen
    std::uint64_t direct = 0;    // the last message that lies in the caller's memory
    send_queues::queue queue;
    std::uint64_t queued = 0;  // what was posted when the first of the queue began to wait
    channel* from = nullptr;
    std::uint64_t next = 0;  // so many of its messages have been consumed here
    delivery_timer timer;
    heap_memory fetched;                  // what was read from the memory of its process
    owned_array<delivery_choice> choice;  // one, as soon as there is something to choose
  };

  /// Writes a copy for that reader; whether it is to tell how long it takes.
  bool write_timed_copy(int peer, std::byte* to, const std::byte* from, std::size_t bytes, bool may_time) {
    correspondent& c = reach(peer);
    const auto [way, to_time] = choice_of(c).next(bytes, false, c.to->report);
    return write_by({way, to_time && may_time}, c, to, from, bytes);
  }
  /// What was to be timed in the call before has not been sent.
  TUTTI_ALWAYS_INLINE void begin_channels_call() {
    if (timed_ != nullptr) [[unlikely]]
      forget_timed();
  }

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
      correspondent& c = peers_[static_cast<std::size_t>(peer)];
      if (!consumed(c, c.direct)) {
        awaited_ = peer;
        return false;
      }
      direct_.pop_back();
    }
    return true;
  }

  /// Nobody reads this rank's memory any more.
  void abandon_sends() noexcept {
    for (const int peer : waiting_) peers_[static_cast<std::size_t>(peer)].queue = {};
    waiting_.clear();
    queues_.clear();
    direct_.clear();
    timed_ = nullptr;
  }

  /// Whether that is what was written for the peer and is to be timed.
  TUTTI_ALWAYS_INLINE bool to_be_timed(int peer, const std::byte* data) {
    return timed_ != nullptr && is_timed(peer, data);
  }
  [[gnu::noinline, gnu::cold]] bool is_timed(int peer, const std::byte* data) {
    if (peer != timed_reader_ || data != timed_) return false;
    timed_ = nullptr;
    return true;
  }
  TUTTI_ALWAYS_INLINE correspondent& reach(int peer) {
    correspondent& c = peers_[static_cast<std::size_t>(peer)];
    if (c.to == nullptr) [[unlikely]]
      c.to = &group_->connect(index_, rank_, peer);
    return c;
  }

  owned_array<correspondent> peers_;

 private:
  static delivery_choice& choice_of(correspondent& c) {
    if (c.choice.size() == 0) [[unlikely]]
      c.choice = owned_array<delivery_choice>(1, "what is known of a peer");
    return c.choice[0];
  }

  static constexpr std::size_t small_bytes = 4096;

  static bool consumed(correspondent& c, std::uint64_t message) {
    if (c.consumed >= message) return true;
    c.consumed = c.to->consumed.load(std::memory_order_acquire);
    return c.consumed >= message;
  }
  static bool full(correspondent& c) {
    return c.posted >= channel::capacity && !consumed(c, c.posted + 1 - channel::capacity);
  }

  /// A copy for that peer by a decision of its choice; whether it is to tell how long it takes.
  static bool write_by(delivery_choice::decision how, correspondent& c, std::byte* to, const std::byte* from,
                       std::size_t bytes) {
    const auto copy = [&](bool streamed) { copy_elements(to, from, bytes, streamed); };
    if (how.timed) return c.choice[0].write(how, bytes, copy);
    copy(how.way == delivery::streamed);
    return false;
  }

  /// How the peer gets what it cannot read where it is. From a root it is not read: a root has nothing else to do than
  /// to copy while the peer takes in what was copied before.
  delivery_choice::decision choose(correspondent& c, const std::byte* data, std::size_t bytes) {
    if (bytes < delivery_choice::least_bytes) return {delivery::cached, false};
    const bool readable = !shows(data, bytes) && call_.root < 0 && c.to->reads.load(std::memory_order_acquire);
    return choice_of(c).next(bytes, readable, c.to->report);
  }

  TUTTI_ALWAYS_INLINE void post(int peer, correspondent& c, const std::byte* data, std::size_t bytes, bool copy) {
    message_slot& s = c.to->slot(c.posted);
    const std::uint64_t message = ++c.posted;
    bool to_time = false;
    if (copy) {
      s.hold(data, bytes);
      s.where = 0;
    } else {
      s.where = group_->where(data);
      hold_until(peer, c, message);
      to_time = to_be_timed(peer, data);
    }
    tell(peer, c, s, message, bytes, !copy, false, to_time);
  }
  void await_reader(int peer, const std::byte* written) {
    timed_ = written;
    timed_reader_ = peer;
  }
  [[gnu::noinline, gnu::cold]] void forget_timed() {
    peers_[static_cast<std::size_t>(timed_reader_)].choice[0].not_sent();
    timed_ = nullptr;
  }
  /// The memory of a message stays as it is until the peer has read it.
  TUTTI_ALWAYS_INLINE void hold_until(int peer, correspondent& c, std::uint64_t message) {
    if (c.direct <= c.consumed || direct_.empty() || direct_.back() != peer) direct_.push_back(peer);
    c.direct = message;
  }
  void post_remote(int peer, correspondent& c, const std::byte* data, std::size_t bytes, bool to_time) {
    message_slot& s = c.to->slot(c.posted);
    const std::uint64_t message = ++c.posted;
    s.where = reinterpret_cast<std::uintptr_t>(data);
    hold_until(peer, c, message);
    tell(peer, c, s, message, bytes, true, true, to_time);
  }

  TUTTI_ALWAYS_INLINE void tell(int peer, const correspondent& c, message_slot& s, std::uint64_t message,
                                std::size_t bytes, bool direct, bool remote = false, bool to_time = false) {
    s.fingerprint = fingerprint_;
    s.describe(bytes, direct, remote, to_time);
    s.consumed = static_cast<std::uint32_t>(c.next);
    TUTTI_FAULT_POINT("channel.post");
    s.turn.store(static_cast<std::uint32_t>(message), std::memory_order_release);
    TUTTI_FAULT_POINT("channel.posted");
    this->bell(peer).ring();
  }

  using chunk = typename staging<Group>::chunk;

  /// Whether that peer's share has room for a copy more.
  bool has_share([[maybe_unused]] correspondent& c) const {
    if constexpr (Group::shows_all) {
      return true;
    } else {
      const auto share = static_cast<std::uint64_t>(shares_.quota);
      return c.posted < share || consumed(c, c.posted + 1 - share);
    }
  }
  /// A copy that lasts until the peer, who has a share, has consumed the message; null if there is no room.
  template <class Write>
  chunk* stage(int peer, std::uint64_t message, const std::byte* data, std::size_t bytes, Write&& write) {
    const auto read = [this](int reader, std::uint64_t m) {
      return consumed(peers_[static_cast<std::size_t>(reader)], m);
    };
    auto& room = bytes <= small_bytes ? small_ : pieces_;
    return room.copy(data, bytes, round_number_, {peer, message}, write, read);
  }

  void post_copy(int peer, correspondent& c, const std::byte* copy, std::size_t bytes, bool to_time) {
    message_slot& s = c.to->slot(c.posted);
    s.where = group_->where(copy);
    tell(peer, c, s, ++c.posted, bytes, false, false, to_time);
  }

  enum class hidden { not_sent, copied, to_be_read };

  /// Sends what the peer cannot read where it is, if there is room.
  hidden send_hidden(int peer, correspondent& c, const std::byte* data, std::size_t bytes) {
    if (!has_share(c)) return hidden::not_sent;  // while it waits there is nothing to choose
    const auto decision = choose(c, data, bytes);
    if (decision.way == delivery::read) {
      post_remote(peer, c, data, bytes, decision.timed);
      if (decision.timed) c.choice[0].sent(decision.way, bytes, {});
      return hidden::to_be_read;
    }
    bool timed = false;  // a copy that was made for another reader takes no time
    const auto write = [&](std::byte* to) { timed = write_by(decision, c, to, data, bytes); };
    chunk* const copy = stage(peer, c.posted + 1, data, bytes, write);
    if (copy == nullptr) return hidden::not_sent;
    post_copy(peer, c, copy->memory.data(), bytes, timed);
    return hidden::copied;
  }

  [[gnu::noinline]] bool send_copy(int peer, correspondent& c, const std::byte* data, std::size_t bytes) {
    // A root gives nobody more of much while others wait for theirs: see furthest_to_send.
    const bool others_first = !Group::shows_all && call_.root >= 0 && bytes > small_bytes && !waiting_.empty();
    const hidden how = others_first ? hidden::not_sent : send_hidden(peer, c, data, bytes);
    if (how != hidden::not_sent) return how == hidden::copied;
    // The receiver reads it where it is, or it waits until there is room.
    if (!shows(data, bytes)) return queue(peer, c, data, bytes, false);
    post(peer, c, data, bytes, false);
    return false;
  }

  [[gnu::noinline, gnu::cold]] bool queue(int peer, correspondent& c, const std::byte* data, std::size_t bytes,
                                          bool copy) {
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
    } else if (copy && c.queue.empty() && has_share(c)) {
      // As if the message were posted, whose number is known.
      const auto write = [&](std::byte* to) { std::memcpy(to, data, bytes); };
      if (chunk* const there = stage(peer, c.posted + 1, data, bytes, write)) {
        q.data = there->memory.data();
        q.copied = true;
      }
    }
    if (c.queue.empty()) {
      waiting_.push_back(peer);
      c.queued = c.posted;
    }
    queues_.append(c.queue, place);
    return q.copied;
  }

  /// Sends what there is room for, in order for each peer: a peer whose ring is full holds back only its own messages.
  [[gnu::noinline, gnu::cold]] void flush() {
    TUTTI_FAULT_POINT("channel.flush");
    const std::uintptr_t furthest = furthest_to_send();
    for (int* peer = waiting_.begin(); peer != waiting_.end();) {
      correspondent& c = peers_[static_cast<std::size_t>(*peer)];
      while (!c.queue.empty() && place_of(queues_.front(c.queue)) < furthest && !full(c) &&
             send_queued(*peer, c, queues_.front(c.queue)))
        queues_.pop(c.queue);
      if (c.queue.empty()) {
        waiting_.erase(peer);
      } else {
        if (place_of(queues_.front(c.queue)) < furthest) awaited_ = *peer;
        ++peer;
      }
    }
  }
  static std::uintptr_t place_of(const send_queues::entry& q) { return reinterpret_cast<std::uintptr_t>(q.data); }
  /// Where a root sends the same bytes to all, who is far ahead of the last waits for it: while they are together one
  /// copy of each piece serves them all. Who has not begun holds nobody up, nor does anybody for what is copied
  /// already, which may be of an earlier call.
  std::uintptr_t furthest_to_send() {
    std::uintptr_t last = UINTPTR_MAX;
    if (call_.root < 0 || waiting_.size() < 2) return last;
    const std::byte* const end = queues_.back(peers_[static_cast<std::size_t>(waiting_.back())].queue).data;
    for (const int peer : waiting_) {
      correspondent& c = peers_[static_cast<std::size_t>(peer)];
      const send_queues::entry& first = queues_.front(c.queue);
      if (first.copied || queues_.back(c.queue).data != end) return UINTPTR_MAX;
      if (consumed(c, c.queued + 1)) last = std::min(last, place_of(first));
    }
    return last == UINTPTR_MAX ? last : last + furthest_lead_;
  }
  bool send_queued(int peer, correspondent& c, const send_queues::entry& q) {
    const std::uint64_t now = std::exchange(fingerprint_, q.fingerprint);
    const bool sent = send_as_queued(peer, c, q);
    fingerprint_ = now;
    return sent;
  }
  bool send_as_queued(int peer, correspondent& c, const send_queues::entry& q) {
    if (q.data == nullptr) {
      post(peer, c, q.held, q.bytes, true);
    } else if (q.copied) {
      post_copy(peer, c, q.data, q.bytes, false);
    } else if (shows(q.data, q.bytes)) {
      post(peer, c, q.data, q.bytes, false);
    } else if (q.bytes <= message_slot::inline_bytes) {
      post(peer, c, q.data, q.bytes, true);
    } else {
      return send_hidden(peer, c, q.data, q.bytes) != hidden::not_sent;
    }
    return true;
  }

  array_list<int> direct_;
  copy_shares shares_;
  // Copies: those of small messages, and those of what others could not read where it is.
  staging<Group> small_;
  staging<Group> pieces_;
  std::size_t furthest_lead_;  // in bytes, of one peer over another that gets the same
  std::uint64_t round_number_ = 0;
  array_list<int> waiting_;  // peers for whom messages wait
  send_queues queues_;
  // What write_copy or write_result has written that is to be timed when it is sent.
  const std::byte* timed_ = nullptr;
  int timed_reader_ = -1;
};

}  // namespace tutti::detail
