// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/clock.hpp>
#include <tutti/core/error.hpp>
#include <tutti/core/fault_point.hpp>
#include <tutti/core/inline.hpp>
#include <tutti/core/message.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/core/transport.hpp>
#include <tutti/transport/failures.hpp>
#include <tutti/transport/landing_memory.hpp>
#include <tutti/transport/tcp/waiting.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tutti::detail {

/// A lane over data connections. A message goes from the sender's memory to its socket, and from the receiver's socket
/// to where it is wanted; what is folded lands in memory of the lane, the same for one message after the other, so that
/// it is still in the cache when it is read. `Group` is one rank's end of a communicator:
///
/// - `number()`, the same on all its ranks, `rank()`, `size()`, `tuning()`, `connection(peer)`;
/// - `lines()`, `line(i)`: all connections of the rank, also those to ranks that are not in this communicator;
/// - `want(peer)`: the connection to that peer is needed;
/// - `check()`, `fail(failure)`, `raise()`, `disagree(peer)`, `misfit(call)`, `late(place, milliseconds)`: why it
///   became unusable; `distrust(peer, header)`: what that peer sent makes no sense;
/// - `lost(peer, what)`: the connection to that peer is broken; `has_left(peer)`, from the group; `never_calls(peer,
///   number)`: it has left the communicator before; `sends_no_more(peer)`: it has left it, and all that it sent there
///   has come; `look_around(place)`; `look_for_stalls(now)`: bytes of peers may be lost;
/// - `write_call(call)`;
/// - `wake_descriptor()`: readable after news: a new connection, a failure, a leave; `quiet()`: until there is more.
template <class Group>
class tcp_lane : public tcp_waiting<Group> {
  using waiting = tcp_waiting<Group>;

 public:
  tcp_lane(Group& group, int index, const std::chrono::nanoseconds& limit)
      : waiting(group, index, limit),
        in_(static_cast<std::size_t>(group.size())),
        memory_(static_cast<std::size_t>(group.size())) {
    if (index < 0 || index >= static_cast<int>(tcp_header::most_lanes))
      throw usage_error(message() << "lane " << index << " on rank " << rank_ << ": must be in [0, "
                                  << tcp_header::most_lanes << ")");
    sending_.reserve(static_cast<std::size_t>(group.size()));
  }

  /// Messages of more bytes, if they have more than one element, should be sent as several.
  std::size_t piece_bytes() const { return group_->tuning().piece_bytes; }
  /// Messages are put where they are wanted.
  static constexpr bool lands = true;

  void open(const call& c) {
    group_->check();
    call_ = c;
    fingerprint_ = c.fingerprint();
    round_ = -1;
    TUTTI_FAULT_POINT("tcp_lane.open");
    group_->write_call(c);
    TUTTI_FAULT_POINT("tcp_lane.opened");
  }

  void begin_round() { ++round_; }

  bool send(int peer, const std::byte* data, std::size_t bytes, bool copy) {
    TUTTI_FAULT_POINT("tcp_lane.send");
    connection_type& c = group_->connection(peer);
    const bool done = c.send(index_, fingerprint_, data, bytes, copy);
    TUTTI_FAULT_POINT("tcp_lane.sent");
    if (!c.sent(index_)) [[unlikely]]
      wait_to_send(peer, c);
    return done;
  }

  const std::byte* view(int peer, std::size_t bytes, std::byte* landing = nullptr) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    connection_type& c = group_->connection(peer);
    if (!i.asked) ask(i, c, bytes, landing);
    if (!c.look(index_)) {
      awaited_ = peer;
      if (c.ended()) [[unlikely]]
        this->blame(peer, c);
      send_waiting();
      return nullptr;
    }
    if (c.end_of(index_).refused) [[unlikely]]
      refuse(peer, c.end_of(index_).came, bytes);
    TUTTI_FAULT_POINT("tcp_lane.arrived");
    this->progressed();
    return i.to;
  }
  void claim(int) {}
  void release(int peer) {
    incoming& i = in_[static_cast<std::size_t>(peer)];
    connection_type& c = group_->connection(peer);
    c.take(index_);
    i.asked = false;
    if (i.own.size != 0) memory_.give_back(std::exchange(i.own, {}));
  }

  bool try_recv(int peer, std::byte* data, std::size_t bytes) {
    const std::byte* const from = view(peer, bytes, data);
    if (from == nullptr) return false;
    release(peer);
    return true;
  }

  bool settled() {
    if (sending_.empty()) [[likely]]
      return true;
    TUTTI_FAULT_POINT("tcp_lane.settle");
    send_waiting();
    if (sending_.empty()) return true;
    awaited_ = sending_.back();
    return false;
  }

  [[gnu::noinline, gnu::cold]] void abandon(const std::string& reason) noexcept {
    this->awake();
    TUTTI_FAULT_POINT("tcp_lane.abandon");
    try {
      group_->fail({errc::peer_failed, rank_,
                    message() << "rank " << rank_ << " failed in " << call_.describe() << ": " << reason});
    } catch (...) {  // no memory for more than what fits into a string itself: others would wait for ever
      group_->fail({errc::peer_failed, rank_, "out of memory"});
    }
    for (int peer = 0; peer < group_->size(); ++peer)
      if (peer != rank_) group_->connection(peer).abandon(index_);
    forget();
  }

  [[gnu::noinline, gnu::cold]] void withdraw() noexcept {
    this->awake();
    TUTTI_FAULT_POINT("tcp_lane.withdraw");
    for (int peer = 0; peer < group_->size(); ++peer)
      if (peer != rank_) group_->connection(peer).withdraw(index_);
    forget();
  }

 private:
  using typename waiting::connection_type;
  using waiting::awaited_, waiting::call_, waiting::fingerprint_, waiting::group_, waiting::index_, waiting::rank_,
      waiting::round_;

  struct incoming {
    bool asked = false;
    std::byte* to = nullptr;
    landing_memory::piece own;  // where it lands, unless the caller has said where
  };

  void forget() noexcept {
    for (incoming& i : in_) {
      i.asked = false;
      i.own = {};
    }
    sending_.clear();
  }

  void ask(incoming& i, connection_type& c, std::size_t bytes, std::byte* landing) {
    if (landing == nullptr) {
      i.own = memory_.take(bytes);
      landing = i.own.memory.data();
    }
    i.to = landing;
    c.ask(index_, landing, bytes, fingerprint_);
    i.asked = true;
  }

  [[gnu::noinline]] void wait_to_send(int peer, connection_type& c) {
    for (const int other : sending_)
      if (other == peer) return;
    sending_.push_back(peer);
    if (!c.established()) group_->want(peer);
  }
  /// To be called wherever a rank waits: others may wait for what it has not sent for want of room.
  void send_waiting() {
    if (!sending_.empty()) [[unlikely]]
      send_more();
  }
  [[gnu::noinline]] void send_more() {
    for (int* peer = sending_.begin(); peer != sending_.end();) {
      connection_type& c = group_->connection(*peer);
      c.advance();
      if (c.sent(index_)) {
        sending_.erase(peer);
      } else {
        if (c.broken()) [[unlikely]]
          this->blame(*peer, c);
        ++peer;
      }
    }
  }

  [[noreturn, gnu::noinline, gnu::cold]] void refuse(int peer, const tcp_header& came, std::size_t bytes) {
    TUTTI_FAULT_POINT("tcp_lane.refuse");
    awaited_ = peer;
    if (came.fingerprint != fingerprint_) {
      if (call_.is_message()) group_->misfit(call_);
      group_->disagree(peer);
    }
    group_->fail(unexpected_size(this->here(), static_cast<std::size_t>(came.bytes), bytes));
    group_->raise();
  }

  owned_array<incoming> in_;
  array_list<int> sending_;  // peers for whom frames of this lane wait
  landing_memory memory_;
};

}  // namespace tutti::detail
