// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/transport.hpp>
#include <tutti/transport/threads/group.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Copies of messages that are too large for a slot and too small to be worth waiting for: the sender goes on at once, and a
/// copy is written over only after all its receivers have consumed it.
class staging {
 public:
  static constexpr std::size_t chunk_bytes = 4096;

  /// For copies that have at most `readers` readers each.
  explicit staging(int readers) : most_readers_(static_cast<std::size_t>(readers)) {}

  struct chunk {
    struct reference {
      int peer;
      std::uint64_t message;
    };
    std::unique_ptr<std::byte[]> memory;
    std::vector<reference> readers;
    std::byte* aligned;
  };

  /// A chunk that `consumed(peer, message)` confirms for every reader; a new one if the oldest is still being read.
  template <class Consumed>
  chunk& take(Consumed&& consumed) {
    while (chunks_.size() < initial_chunks) add(chunks_.size());
    next_ = next_ + 1 == chunks_.size() ? 0 : next_ + 1;
    auto& readers = chunks_[next_]->readers;
    while (!readers.empty() && consumed(readers.back().peer, readers.back().message)) readers.pop_back();
    if (!readers.empty()) add(next_);
    return *chunks_[next_];
  }

 private:
  // As many as can be under way to one peer, and the one that waits for room.
  static constexpr std::size_t initial_chunks = channel::capacity + 2;

  void add(std::size_t at) {
    auto made = std::make_unique<chunk>();
    made->memory = std::make_unique<std::byte[]>(chunk_bytes + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(made->memory.get());
    made->aligned = made->memory.get() + (64 - address % 64) % 64;
    made->readers.reserve(most_readers_);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at), std::move(made));
  }

  std::vector<std::unique_ptr<chunk>> chunks_;
  std::size_t next_ = 0;
  std::size_t most_readers_;
};

/// A lane between threads. Messages to be copied lie in the slot up to 96 bytes and else in a copy of the sender; others are
/// read by the receiver where the sender has them.
class threads_lane {
 public:
  threads_lane(threads_group& group, int rank, int index, const std::chrono::nanoseconds& limit)
      : group_(&group),
        rank_(rank),
        index_(index),
        limit_(&limit),
        policy_(group.policy()),
        out_(static_cast<std::size_t>(group.size())),
        in_(static_cast<std::size_t>(group.size())),
        staging_(group.size() - 1) {
    direct_.reserve(static_cast<std::size_t>(group.size()));
    boards_ = group.boards(index);
    ended_.resize(static_cast<std::size_t>(group.size()));
    slot_readers_.fill(-1);
    readers_.reserve(2 * static_cast<std::size_t>(group.size()));
  }

  void open(const call& c) {
    group_->check();
    call_ = c;
    fingerprint_ = c.fingerprint();
    round_ = -1;
    group_->state(rank_).log.write(c);
  }

  void begin_round() {
    ++round_;
    staged_from_ = nullptr;
  }

  void send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    if (o.to == nullptr) [[unlikely]] o.to = &group_->connect(index_, rank_, peer);
    if (o.queued != 0 || full(o)) [[unlikely]] {
      queue(peer, o, data, bytes, copy);
      return;
    }
    post(peer, o, data, bytes, copy, false);
  }

  const std::byte* view(int peer, std::size_t bytes) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.from == nullptr) [[unlikely]] i.from = &group_->connect(index_, peer, rank_);
    const message_slot& s = i.from->slot(i.next);
    if (bytes > 32) __builtin_prefetch(&s.payload[32]);  // the second line, while the first one comes
    if (!s.arrived(i.next + 1)) {
      awaited_ = peer;
      if (!queue_.empty()) [[unlikely]] flush();
      return nullptr;
    }
    if (s.fingerprint != fingerprint_ || s.size != bytes) [[unlikely]] refuse(peer, s, bytes);
    // The message tells what its sender has consumed: its own counter need not be read.
    outgoing& o = out_[static_cast<std::size_t>(peer)];
    const auto more = static_cast<std::int32_t>(s.consumed - static_cast<std::uint32_t>(o.consumed));
    if (more > 0) o.consumed += static_cast<std::uint32_t>(more);
    return s.address == nullptr ? s.payload.data() : s.address;
  }

  void claim(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    if (i.from->slot(i.next).direct == 0) return;
    // The sender's own memory is read only between here and `release`. A failing sender sets the failure, then makes every
    // thread pass a fence, then waits for claims: either it sees this claim or this rank sees the failure.
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

  void release(int peer) {
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

  bool settled() {
    if (!queue_.empty()) [[unlikely]] {
      flush();
      if (!queue_.empty()) return false;
    }
    while (!readers_.empty()) {
      const auto [reader, round] = readers_.back();
      if (boards_[reader].ended.load(std::memory_order_acquire) <= round) {
        awaited_ = reader;
        return false;
      }
      readers_.pop_back();
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

  // ---- Shared rounds
  // Shows `bytes` bytes that begin `origin` bytes into this rank's vector to one reader, or to several (-1); false while
  // there is no room.
  bool publish(int reader, const std::byte* data, std::size_t bytes, std::size_t origin, bool copy) {
    if (shared_ >= ended_by_all_ + board::capacity && !make_room()) return false;
    slot_readers_[shared_ % board::capacity] = reader;
    message_slot& s = boards_[rank_].slot(shared_);
    published_ = true;
    s.fingerprint = fingerprint_;
    s.size = origin & (~std::uint64_t{0} >> 1);
    s.direct = copy ? 0 : 1;
    if (!copy) {
      s.address = data;
    } else if (bytes <= message_slot::inline_bytes) {
      s.address = nullptr;
      copy_bytes(s.payload.data(), data, bytes);
    } else {
      if (copies_ == nullptr) copies_ = std::make_unique<copies>();
      std::byte* const there = (*copies_)[shared_ % board::capacity].bytes.data();
      std::memcpy(there, data, bytes);
      s.address = there;
    }
    s.turn.store(static_cast<std::uint32_t>(shared_ + 1), std::memory_order_release);
    // Who published before without reading runs ahead of its readers: they do not look at the slot after next yet.
    if (ahead_) prefetch_to_write(&boards_[rank_].slot(shared_ + 2));
    return true;
  }
  void publish_to(int reader, bool copy) {
    if (!copy) readers_.push_back({reader, shared_});
    group_->state(reader).bell.ring();
  }

  void expect(int peer, std::size_t bytes) {
    const message_slot& s = boards_[peer].slot(shared_);
    __builtin_prefetch(&s);
    if (bytes > 32) __builtin_prefetch(&s.payload[32]);
  }

  // Where the byte `offset` of the peer's vector lies, or null while it has not published.
  const std::byte* look(int peer, std::size_t offset, std::size_t bytes) {
    const message_slot& s = boards_[peer].slot(shared_);
    if (bytes > 32) __builtin_prefetch(&s.payload[32]);  // the second line, while the first one comes
    if (!s.arrived(shared_ + 1)) {
      awaited_ = peer;
      return nullptr;
    }
    if (s.fingerprint != fingerprint_) [[unlikely]] refuse(peer, s, s.size);
    ++looked_;
    looked_at_direct_ |= s.direct != 0;
    // A peer that waits for nobody may be ahead: its next message is on the way while this one is taken in.
    if (!published_) __builtin_prefetch(&boards_[peer].slot(shared_ + 1));
    return (s.address == nullptr ? s.payload.data() : s.address) + (offset - s.size);
  }

  void claim_shared() {
    if (!looked_at_direct_) return;
    boards_[rank_].claimed.store(shared_ + 1, std::memory_order_relaxed);
    if (asymmetric_fence::available()) {
      asymmetric_fence::light();
    } else {
      boards_[rank_].claimed.exchange(shared_ + 1, std::memory_order_seq_cst);
    }
    if (group_->failed()) [[unlikely]] {
      boards_[rank_].claimed.store(0, std::memory_order_release);
      group_->check();
    }
  }

  void release_shared() {
    if (looked_at_direct_) boards_[rank_].claimed.store(0, std::memory_order_release);
  }

  void end_shared() {
    // A rank that has published in this round has ended all rounds before it.
    const bool exchanged = looked_ == group_->size() - 1;
    ahead_ = looked_ == 0;
    if (exchanged) ended_by_all_ = shared_;
    ++shared_;
    looked_ = 0;
    const bool told_by_publishing = std::exchange(published_, false) && exchanged;
    if (!std::exchange(looked_at_direct_, false) && told_by_publishing && shared_ % board::told_every != 0) return;
    boards_[rank_].ended.store(shared_, std::memory_order_release);
    // Any rank may be waiting for it: those that published, and those that want to use a slot again.
    for (int rank = 0; rank < group_->size(); ++rank) group_->state(rank).bell.ring();
  }

  void idle() {
    if (++idle_ <= policy_.spins) {
      cpu_pause();
    } else {
      idle_slowly();
    }
  }

  void glance() {
    group_->check();
    if (++glances_ % 64 != 0) return;
    look_up();
    look_around();
  }

  void awake() {
    if (armed_) group_->state(rank_).bell.cancel();
    armed_ = false;
    idle_ = 0;
    started_ = {};
    impatient_ = false;
    left_seen_ = -1;
  }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    awake();
    try {
      group_->fail({errc::peer_failed, rank_,
                    message() << "rank " << rank_ << " failed in " << call_.describe() << ": " << reason});
    } catch (...) {
      std::terminate();  // no memory to say what failed: others would wait for ever
    }
    asymmetric_fence::heavy();
    for (incoming& i : in_)
      if (i.from != nullptr) i.from->claimed.store(i.next, std::memory_order_release);
    boards_[rank_].claimed.store(0, std::memory_order_release);
    for (int rank = 0; rank < group_->size(); ++rank) {
      const board& b = boards_[rank];
      while (b.claimed.load(std::memory_order_seq_cst) != 0) sched_yield();
    }
    readers_.clear();
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
  };
  struct direct_reader {
    int rank;
    std::uint64_t round;
  };
  struct alignas(64) copy_area {
    std::array<std::byte, board::copy_bytes> bytes;
  };
  using copies = std::array<copy_area, board::capacity>;

  static void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 8) {
      std::memcpy(to, from, 8);
    } else if (bytes != 0) {
      std::memcpy(to, from, bytes);
    }
  }

  /// Whether all who read it have ended the round that had the next slot before. Only theirs is looked at: a counter that
  /// others read is slow to advance.
  bool make_room() {
    if (const int reader = slot_readers_[shared_ % board::capacity]; reader >= 0) {
      std::uint64_t& ended = ended_[static_cast<std::size_t>(reader)];
      if (shared_ < ended + board::capacity) return true;
      ended = boards_[reader].ended.load(std::memory_order_acquire);
      awaited_ = reader;
      return shared_ < ended + board::capacity;
    }
    std::uint64_t least = shared_;
    for (int rank = 0; rank < group_->size(); ++rank) {
      const std::uint64_t ended = boards_[rank].ended.load(std::memory_order_acquire);
      if (ended < least) {
        least = ended;
        awaited_ = rank;
      }
    }
    ended_by_all_ = least;
    return shared_ < ended_by_all_ + board::capacity;
  }

  static bool consumed(outgoing& o, std::uint64_t message) {
    if (o.consumed >= message) return true;
    o.consumed = o.to->consumed.load(std::memory_order_acquire);
    return o.consumed >= message;
  }
  static bool full(outgoing& o) {
    return o.posted >= channel::capacity && !consumed(o, o.posted + 1 - channel::capacity);
  }

  void post(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy, bool copied) {
    message_slot& s = o.to->slot(o.posted);
    const std::uint64_t message = ++o.posted;
    s.fingerprint = fingerprint_;
    s.size = bytes & (~std::uint64_t{0} >> 1);
    s.direct = copy ? 0 : 1;
    s.consumed = static_cast<std::uint32_t>(in_[static_cast<std::size_t>(peer)].next);
    if (copy && bytes <= message_slot::inline_bytes) {
      s.address = nullptr;
      copy_bytes(s.payload.data(), data, bytes);
    } else if (copy) {
      s.address = copied ? data : stage(peer, message, data, bytes);
    } else {
      s.address = data;
      if (o.direct <= o.consumed || direct_.empty() || direct_.back() != peer) direct_.push_back(peer);
      o.direct = message;
    }
    s.turn.store(static_cast<std::uint32_t>(message), std::memory_order_release);
    group_->state(peer).bell.ring();
  }

  [[gnu::noinline]] const std::byte* stage(int peer, std::uint64_t message, const std::byte* data, std::size_t bytes) {
    // The same bytes to several peers in one round are copied once.
    if (staged_from_ != data || staged_bytes_ != bytes) {
      staged_ = &staging_.take([this](int reader, std::uint64_t m) {
        return consumed(out_[static_cast<std::size_t>(reader)], m);
      });
      std::memcpy(staged_->aligned, data, bytes);
      staged_from_ = data;
      staged_bytes_ = bytes;
    }
    staged_->readers.push_back({peer, message});
    return staged_->aligned;
  }

  [[gnu::noinline, gnu::cold]] void queue(int peer, outgoing& o, const std::byte* data, std::size_t bytes, bool copy) {
    // The copy is made as if the message were posted, whose number is known.
    queue_.push_back({peer, copy ? stage(peer, o.posted + o.queued + 1, data, bytes) : data, bytes, copy});
    ++o.queued;
  }

  [[gnu::noinline, gnu::cold]] void flush() {
    // In order for each peer: a peer whose ring is full holds back only its own messages.
    for (auto q = queue_.begin(); q != queue_.end();) {
      outgoing& o = out_[static_cast<std::size_t>(q->peer)];
      bool blocked = full(o);
      for (auto earlier = queue_.begin(); earlier != q && !blocked; ++earlier) blocked = earlier->peer == q->peer;
      if (blocked) {
        awaited_ = q->peer;
        ++q;
        continue;
      }
      post(q->peer, o, q->data, q->bytes, q->copied, q->copied);
      --o.queued;
      q = queue_.erase(q);
    }
  }

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(int peer, const message_slot& s, std::size_t bytes) {
    if (s.fingerprint == fingerprint_) {
      group_->fail({errc::mismatch, peer,
                    message() << "rank " << peer << " sent " << s.size << " bytes where rank " << rank_ << " expects "
                              << bytes << " in round " << round_ << " of " << call_.describe()
                              << ": the schedule does not fit together"});
    } else {
      group_->disagree(rank_, peer);
    }
    group_->raise();
  }
  [[gnu::cold, gnu::noinline]] void idle_slowly() {
    const auto nap = look_up();
    if (waited_ < policy_.patience) {
      idle_ = 0;
      return;
    }
    const bool first = !std::exchange(impatient_, true);
    const bool tired = idle_ > policy_.spins + policy_.yields;
    if (armed_) {
      group_->state(rank_).bell.sleep(seen_, nap);
      armed_ = false;
      idle_ = policy_.spins;
      return;
    }
    if (first || tired) look_around();
    if (tired) {
      seen_ = group_->state(rank_).bell.prepare();
      armed_ = true;
    } else {
      sched_yield();
    }
  }

  /// Throws if waiting has become pointless; returns how long a nap may be.
  std::chrono::nanoseconds look_up() {
    group_->check();
    const auto now = std::chrono::steady_clock::now();
    if (started_ == std::chrono::steady_clock::time_point{}) started_ = now;
    waited_ = now - started_;
    constexpr auto longest = std::chrono::nanoseconds(std::chrono::milliseconds(100));
    if (*limit_ <= std::chrono::nanoseconds::zero()) return longest;
    const auto left = *limit_ - waited_;
    if (left <= std::chrono::nanoseconds::zero()) expire(now);
    return left < longest ? left : longest;
  }

  /// Others may be in another call, or gone: then what is waited for never comes. Called once after a look in vain.
  [[gnu::noinline, gnu::cold]] void look_around() {
    for (int peer = 0; peer < group_->size(); ++peer) {
      if (peer == rank_) continue;
      const auto theirs = group_->state(peer).log.read(call_.sequence);
      if (theirs && theirs->fingerprint() != fingerprint_) {
        group_->disagree(rank_, peer);
        group_->raise();
      }
    }
    if (group_->state(awaited_).status.load(std::memory_order_acquire) == presence::running) return;
    // What it sent before it left is visible now: only another look in vain means that nothing will come.
    if (std::exchange(left_seen_, awaited_) != awaited_) return;
    group_->fail({errc::peer_failed, awaited_,
                  message() << "rank " << awaited_ << " left while rank " << rank_ << " waited for it in round " << round_
                            << " of " << call_.describe()});
    group_->raise();
  }

  [[noreturn, gnu::noinline, gnu::cold]] void expire(std::chrono::steady_clock::time_point now) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - started_).count();
    // The rank waited for may itself wait for another: if some have not come to this call, the last of them is to blame.
    const auto last = [this](int rank) { return group_->state(rank).log.last(); };
    int late = awaited_;
    for (int rank = 0; rank < group_->size(); ++rank)
      if (last(rank) < call_.sequence && last(rank) < last(late)) late = rank;
    group_->fail({errc::timed_out, late,
                  message() << "rank " << late << " was late: rank " << rank_ << " waited " << waited << " ms for rank "
                            << awaited_ << " in round " << round_ << " of " << call_.describe()
                            << (last(late) < call_.sequence ? ", which that rank has not called" : "")});
    group_->raise();
  }

  threads_group* group_;
  int rank_;
  int index_;
  const std::chrono::nanoseconds* limit_;
  wait_policy policy_;
  call call_;
  std::uint64_t fingerprint_ = 0;
  int round_ = -1;
  std::vector<outgoing> out_;
  std::vector<incoming> in_;
  std::vector<int> direct_;
  staging staging_;
  staging::chunk* staged_ = nullptr;
  const std::byte* staged_from_ = nullptr;
  std::size_t staged_bytes_ = 0;
  std::vector<queued_send> queue_;
  // Shared rounds.
  board* boards_ = nullptr;
  std::uint64_t shared_ = 0;        // shared rounds that this rank has ended
  std::uint64_t ended_by_all_ = 0;  // as last seen
  std::vector<std::uint64_t> ended_;  // by each rank, as last seen
  std::array<int, board::capacity> slot_readers_{};
  int looked_ = 0;                  // at how many ranks' boards in this round
  bool looked_at_direct_ = false;
  bool published_ = false;          // in this round
  bool ahead_ = false;              // it read nothing in the round before
  std::unique_ptr<copies> copies_;
  std::vector<direct_reader> readers_;
  // Waiting.
  int awaited_ = 0;
  int idle_ = 0;
  unsigned glances_ = 0;
  bool armed_ = false;
  bool impatient_ = false;
  std::chrono::nanoseconds waited_{0};
  int left_seen_ = -1;  // whom this rank has seen to be gone while it waited for it
  std::uint32_t seen_ = 0;
  std::chrono::steady_clock::time_point started_{};
};

}  // namespace tutti::detail
