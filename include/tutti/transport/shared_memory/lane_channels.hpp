// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/transport/shared_memory/channel.hpp>
#include <tutti/transport/shared_memory/heap_memory.hpp>
#include <tutti/transport/shared_memory/lane_sends.hpp>

#include <sched.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::detail {

/// Messages between one rank and each other.
template <class Group>
class lane_channels : public lane_sends<Group> {
  using sends = lane_sends<Group>;

 public:
  using sends::sends;

  TUTTI_ALWAYS_INLINE const std::byte* view(int peer, std::size_t bytes,
                                            [[maybe_unused]] std::byte* landing = nullptr) {
    correspondent& c = peers_[static_cast<std::size_t>(peer)];
    if (c.from == nullptr) [[unlikely]]
      accept(c, peer);
    const message_slot& s = c.from->slot(c.next);
    if (bytes > message_slot::first_line_bytes && !is_pair()) s.prefetch_second_line();
    if (!s.arrived(c.next + 1)) {
      awaited_ = peer;
      send_waiting();
      return nullptr;
    }
    if (s.fingerprint != fingerprint_ || s.size() != bytes) [[unlikely]]
      this->refuse(peer, s, bytes);
    TUTTI_FAULT_POINT("channel.arrived");
    // The message tells what its sender has consumed: its own counter need not be read.
    const auto more = static_cast<std::int32_t>(s.consumed - static_cast<std::uint32_t>(c.consumed));
    if (more > 0) c.consumed += static_cast<std::uint32_t>(more);
    if constexpr (!Group::shows_all) {
      // When this rank first looked for a message the peer may not have been there yet.
      if (c.next == 0) [[unlikely]]
        offer_to_read(c, peer);
    }
    if constexpr (!Group::shows_all) {
      if (s.remote()) return fetch(peer, c, s, landing);
    }
    if (s.where == 0) return s.payload;
    return s.direct() && this->has_withdrawn(peer) ? nullptr : group_->at(s.where);
  }

  TUTTI_ALWAYS_INLINE void claim(int peer) {
    correspondent& c = peers_[static_cast<std::size_t>(peer)];
    // Not since it arrived: others that are taken in with it may arrive later. What was fetched has begun.
    if (const message_slot& s = c.from->slot(c.next); s.to_time() && !s.remote()) [[unlikely]]
      c.timer.begin();
    if constexpr (Group::waits_for_readers) {
      if (c.from->slot(c.next).direct()) claim_direct(peer, c);
    }
  }

  TUTTI_ALWAYS_INLINE void release(int peer) {
    correspondent& c = peers_[static_cast<std::size_t>(peer)];
    if constexpr (!Group::waits_for_readers) {
      if (c.from->slot(c.next).direct()) {
        group_->check_after_reading();
        if (this->has_withdrawn(peer)) [[unlikely]]
          await_end();
      }
    }
    if (c.from->slot(c.next).to_time()) [[unlikely]]
      c.timer.report_to(c.from->report);
    TUTTI_FAULT_POINT("channel.release");
    c.from->consumed.store(++c.next, std::memory_order_release);
    TUTTI_FAULT_POINT("channel.consumed");
    if (is_pair() && c.to != nullptr) c.to->slot(c.posted).prefetch_to_fill();
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
  using sends::awaited_, sends::call_, sends::fingerprint_, sends::group_, sends::index_, sends::peers_, sends::rank_;
  using sends::send_waiting;
  using typename sends::correspondent;

  /// Two ranks that exchange messages write the next one at once: its lines are better asked for together and before,
  /// and not taken away by the receiver.
  TUTTI_ALWAYS_INLINE bool is_pair() const { return group_->size() == 2; }

  /// Times what this rank reads otherwise than by messages from that peer.
  void begin_timing(int peer) { peers_[static_cast<std::size_t>(peer)].timer.begin(); }
  [[gnu::noinline, gnu::cold]] void end_timing(int peer) {
    correspondent& c = peers_[static_cast<std::size_t>(peer)];
    if (c.from == nullptr) accept(c, peer);
    c.timer.report_to(c.from->report);
  }

  /// What this rank reads is not there any more: it goes no further, and throws when it is known why.
  [[noreturn, gnu::noinline, gnu::cold]] void await_end() {
    release_claims();
    for (group_->check();;) this->idle();
  }
  void release_claims() noexcept {
    for (correspondent& c : peers_)
      if (c.from != nullptr) c.from->claimed.store(c.next, std::memory_order_release);
  }

  /// After all can know that it does so: nobody reads this rank's memory any more.
  void abandon_channels() noexcept {
    TUTTI_FAULT_POINT("channel.abandon");
    if constexpr (Group::waits_for_readers) {
      release_claims();
      for (const correspondent& c : peers_) {
        if (c.to == nullptr) continue;
        while (c.to->claimed.load(std::memory_order_seq_cst) > c.to->consumed.load(std::memory_order_acquire))
          sched_yield();
      }
    }
    this->abandon_sends();
  }

 private:
  /// The sender's own memory is read only between here and `release`. A sender that fails or withdraws says so, then
  /// makes every thread pass a fence, then waits for claims: either it sees this claim or this rank sees what it says.
  [[gnu::noinline]] void claim_direct(int peer, correspondent& c) {
    c.from->claimed.store(c.next + 1, std::memory_order_relaxed);
    if (asymmetric_fence::available()) {
      asymmetric_fence::light();
    } else {
      c.from->claimed.exchange(c.next + 1, std::memory_order_seq_cst);
    }
    if (group_->failed() || this->has_withdrawn(peer)) [[unlikely]]
      await_end();
  }

  [[gnu::noinline, gnu::cold]] void accept(correspondent& c, int peer) {
    c.from = &group_->connect(index_, peer, rank_);
    offer_to_read(c, peer);
  }
  /// Tells the peer whether this rank can read the memory of its process, as soon as that is known.
  [[gnu::noinline, gnu::cold]] void offer_to_read(correspondent& c, int peer) {
    if constexpr (!Group::shows_all) {
      if (c.from->reads.load(std::memory_order_relaxed) || !group_->can_read(peer)) return;
      c.from->reads.store(true, std::memory_order_release);
    }
  }
  /// Brings a message here from the memory of its sender's process: to `landing`, or if that is null to memory of the
  /// lane.
  [[gnu::noinline]] const std::byte* fetch(int peer, correspondent& c, const message_slot& s, std::byte* landing) {
    const std::size_t bytes = s.size();
    if (s.to_time()) c.timer.begin();
    if (landing == nullptr) {
      if (c.fetched.size() < bytes) c.fetched = heap_memory(bytes);
      landing = c.fetched.data();
    }
    const int refused = this->has_withdrawn(peer) ? 0 : group_->read(peer, landing, s.where, bytes);
    if (this->has_withdrawn(peer)) [[unlikely]]
      return nullptr;
    if (refused != 0) group_->cannot_read(peer, refused);
    return landing;
  }
};

}  // namespace tutti::detail
