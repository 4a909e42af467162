// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/error.hpp>
#include <tutti/core/topology.hpp>
#include <tutti/simulation/arrivals.hpp>
#include <tutti/simulation/event_queue.hpp>
#include <tutti/simulation/rank_clock.hpp>
#include <tutti/simulation/result.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti::detail {

inline void check_network(const network& net) {
  const auto check = [](const char* name, double value) {
    if (!(value >= 0) || !std::isfinite(value)) {
      throw usage_error("simulate: the network's " + std::string(name) + " is " + std::to_string(value) +
                        ", which is no time");
    }
  };
  check("latency", net.latency);
  check("overhead", net.overhead);
  check("gap", net.gap);
  check("byte", net.byte);
  check("fold", net.fold);
  if (net.ports < 1)
    throw usage_error("simulate: the network has " + std::to_string(net.ports) + " ports, not 1 or more");
}

/// The first byte of a message comes to its receiver.
struct arrival_event {
  double at;
  double bytes;
  int from;
  int to;
};

/// The first byte of a message comes to a link or, behind the last one, to its receiver.
struct link_event : arrival_event {
  double last;  // the last byte comes there, or later
  int hop;
};

/// The ranks on a network: who has come how far, and which messages are on their way. It knows nothing of schedules:
/// `begin_round` opens a round, `send` and `expect` say what belongs to it, and `next` tells of the ranks whose round
/// is complete. One cache line for each rank, and an event for each message on its way (for each link that it crosses).
template <topology T>
class simulation_engine {
 public:
  simulation_engine(const T& wires, const network& net)
      : net_{net}, wires_{wires}, ranks_(static_cast<std::size_t>(wires.size)) {
    if (net.ports > 1) {
      const std::size_t all = ranks_.size() * static_cast<std::size_t>(net.ports);
      out_.resize(all);
      in_.resize(all);
    }
    links_.resize(static_cast<std::size_t>(wires.links()));
  }

  /// The round that the rank begins or continues with.
  int& round(int rank) { return state(rank).round; }

  [[gnu::noinline]] void send(int rank, int peer, long long size) {
    check_peer(rank, peer);
    rank_state& me = state(rank);
    const auto bytes = static_cast<double>(size);
    const double start = me.clock.send(net_, ports(out_, me.clock.out, rank), bytes);
    me.bytes += size;
    ++totals_.messages;
    totals_.bytes += size;
    if constexpr (shared_links) {
      events_.push({{start, bytes, rank, peer}, start + bytes * net_.byte, 0});
    } else {
      events_.push({start + net_.latency, bytes, rank, peer});
    }
  }

  [[gnu::noinline]] void expect(int rank, int peer, long long folded) {
    check_peer(rank, peer);
    rank_state& me = state(rank);
    const double folding = static_cast<double>(folded) * net_.fold;
    if (me.awaited == 0) {
      me.from = peer;
      me.folding = folding;
    } else {
      if (me.awaited == 1) {
        const int first = me.from;
        me.from = ~take_group();
        group(me).expect(first, me.folding);
      }
      group(me).expect(peer, folding);
    }
    ++me.awaited;
  }

  /// The rank that describes its round folds blocks of its own.
  void fold(long long bytes) { local_ += static_cast<double>(bytes) * net_.fold; }

  /// The round has been described. Tells whether it is complete already.
  [[gnu::noinline]] bool end_round(int rank) {
    rank_state& me = state(rank);
    me.clock.processor += local_;
    local_ = 0;
    if (me.awaited > 0 && me.from < 0) group(me).close();
    if (me.awaited > 0 && me.early != early_arrivals::none) {
      early_.offer(
          me.early, [&](int from, double end) { return take(me, from, end); }, [&] { return me.awaited == 0; });
    }
    if (me.awaited > 0) return false;
    me.clock.finish_round();
    return true;
  }

  /// The rank has finished its last round.
  void finish(int rank, int rounds) {
    const rank_state& me = state(rank);
    totals_.makespan = std::max(totals_.makespan, me.clock.processor);
    totals_.busiest = std::max(totals_.busiest, me.bytes);
    totals_.rounds = std::max(totals_.rounds, rounds);
    ++finished_;
  }

  /// Goes on until an event completes a rank's round; tells which rank, or -1 if there are no more events.
  [[gnu::noinline]] int next() {
    while (!events_.empty()) {
      if (const auto* coming = events_.peek(6)) __builtin_prefetch(&ranks_[static_cast<std::size_t>(coming->to)], 1);
      const auto e = events_.pop();
      ++totals_.events;
      if (arrive(e)) return e.to;
    }
    return -1;
  }

  double time(int rank) const { return ranks_[static_cast<std::size_t>(rank)].clock.processor; }

  /// Throws if a rank waits for what nobody has sent, or was sent what it did not wait for.
  [[gnu::noinline]] void check_end() const {
    if (finished_ == wires_.size && early_.empty()) return;
    for (int rank = 0; rank < wires_.size; ++rank) {
      const rank_state& me = ranks_[static_cast<std::size_t>(rank)];
      const std::string who = "simulate: rank " + std::to_string(rank) + " of " + std::to_string(wires_.size);
      if (me.awaited > 0) {
        const int peer = me.from >= 0 ? me.from : groups_[group_of(me)].missing();
        throw usage_error(who + " waits in round " + std::to_string(me.round - 1) + " for a message from rank " +
                          std::to_string(peer) + " that never comes");
      }
      if (finished_ == wires_.size && me.early != early_arrivals::none) {
        throw usage_error(who + " gets a message from rank " + std::to_string(early_.first_from(me.early)) +
                          " that it never receives");
      }
    }
  }

  const simulation_result& totals() const { return totals_; }

 private:
  static constexpr bool shared_links = !std::is_same_v<T, full_topology>;
  using event = std::conditional_t<shared_links, link_event, arrival_event>;

  struct alignas(64) rank_state {
    rank_clock clock;
    double folding = 0;   // what it takes to fold the one message awaited
    long long bytes = 0;  // sent
    int round = 0;        // the next one
    int awaited = 0;      // messages still to come in this one
    int from = 0;         // the peer awaited if there is one, ~index of a group if there were several
    int early = early_arrivals::none;
  };
  static_assert(sizeof(rank_state) == 64, "one cache line");

  rank_state& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  static std::size_t group_of(const rank_state& me) {
    const int index = ~me.from;
    return static_cast<std::size_t>(index);
  }
  arrival_group& group(const rank_state& me) { return groups_[group_of(me)]; }

  port_heap ports(std::vector<double>& many, double& one, int rank) {
    if (net_.ports == 1) return {&one, 1};
    return {&many[static_cast<std::size_t>(rank) * static_cast<std::size_t>(net_.ports)], net_.ports};
  }

  void check_peer(int rank, int peer) const {
    if (peer < 0 || peer >= wires_.size) no_such_peer(rank, peer);
  }
  [[noreturn, gnu::noinline, gnu::cold]] void no_such_peer(int rank, int peer) const {
    throw usage_error("simulate: rank " + std::to_string(rank) + " of " + std::to_string(wires_.size) + " names rank " +
                      std::to_string(peer) + " as its peer");
  }

  int take_group() {
    if (free_groups_.empty()) {
      groups_.emplace_back();
      return static_cast<int>(groups_.size()) - 1;
    }
    const int index = free_groups_.back();
    free_groups_.pop_back();
    return index;
  }

  /// Whether the rank's round waits for that message; if so takes it in.
  bool take(rank_state& me, int from, double end) {
    if (me.awaited == 0) return false;
    if (me.from >= 0) {
      if (me.from != from) return false;
      me.clock.take_in(net_, end, me.folding);
      me.awaited = 0;
      return true;
    }
    if (!group(me).arrive(from, end)) return false;
    if (--me.awaited == 0) {
      group(me).take_in(net_, me.clock);
      free_groups_.push_back(~me.from);
      me.from = 0;
    }
    return true;
  }

  /// Whether it completes a round of `e.to`.
  bool arrive(event e) {
    double last = 0;
    if constexpr (shared_links) {
      if (const int hops = wires_.hops(e.from, e.to); e.hop < hops) {
        const int l = wires_.link(e.from, e.to, e.hop);
        double& link_free = links_[static_cast<std::size_t>(l)];
        e.at = std::max(e.at, link_free);
        link_free = e.at + e.bytes * net_.byte / wires_.width(l);
        e.last = std::max(e.last, link_free);
        ++e.hop;
        if (e.hop == hops) {
          e.at += net_.latency;
          e.last += net_.latency;
        }
        events_.push(e);
        return false;
      }
      last = e.last;
    }
    rank_state& me = state(e.to);
    const double end = rank_clock::receive(net_, ports(in_, me.clock.in, e.to), e.at, last, e.bytes);
    if (!take(me, e.from, end)) {
      early_.push(me.early, e.from, end);
      return false;
    }
    if (me.awaited > 0) return false;
    me.clock.finish_round();
    return true;
  }

  network net_;
  T wires_;
  std::vector<rank_state> ranks_;
  std::vector<double> out_, in_;  // of several ports
  std::vector<double> links_;     // free from then on
  event_queue<event> events_;
  early_arrivals early_;
  std::deque<arrival_group> groups_;
  std::vector<int> free_groups_;
  simulation_result totals_;
  double local_ = 0;  // what it takes to fold blocks of its own in the round that is being described
  int finished_ = 0;
};

}  // namespace tutti::detail
