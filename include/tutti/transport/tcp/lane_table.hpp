// SPDX-License-Identifier: BSL-1.0
#pragma once

// What one connection knows of its lanes.

#include <tutti/core/memory.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/tcp/backlog.hpp>
#include <tutti/transport/tcp/frame.hpp>
#include <tutti/transport/tcp/group_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::detail {

/// What one connection knows of one lane.
struct tcp_lane_end {
  // Of what comes in.
  std::byte* to = nullptr;  // where the message goes that is asked for; null if none is
  std::uint64_t bytes = 0;  // its size
  std::uint64_t fingerprint = 0;
  bool arrived = false;
  bool seen = false;     // it has arrived, and whoever asked for it knows
  bool refused = false;  // what came is not what was asked for; `came` says what it was
  bool pausing = false;  // the peer has been asked to pause
  tcp_header came;
  tcp_backlog kept;  // headers and payloads of what was not asked for yet
  // Of what goes out.
  bool held = false;         // the peer has asked to pause
  std::uint32_t unsent = 0;  // frames that wait to be written

  bool awaits() const { return to != nullptr && !arrived; }
  bool fits(const tcp_header& header) const { return header.bytes == bytes && header.fingerprint == fingerprint; }
};

/// The lanes of one communicator, by index. They stay where they are.
class tcp_lane_set {
 public:
  tcp_lane_set() = default;
  tcp_lane_set(const tcp_lane_set&) = delete;
  tcp_lane_set& operator=(const tcp_lane_set&) = delete;
  ~tcp_lane_set() {
    for (tcp_lane_end* const l : lanes_) delete l;
  }

  std::size_t size() const { return lanes_.size(); }
  /// One below the size: null if nothing is known of it.
  tcp_lane_end* operator[](std::uint64_t index) const { return lanes_[index]; }
  tcp_lane_end* find(std::uint64_t index) const { return index < size() ? lanes_[index] : nullptr; }
  tcp_lane_end& lane(std::uint32_t index) {
    tcp_lane_end* const there = find(index);
    return there != nullptr ? *there : add(index);
  }
  /// Calls `f(index, lane)` for each.
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t index = 0; index < lanes_.size(); ++index)
      if (lanes_[index] != nullptr) f(static_cast<std::uint32_t>(index), *lanes_[index]);
  }

 private:
  [[gnu::noinline, gnu::cold]] tcp_lane_end& add(std::uint32_t index) {
    if (index >= lanes_.size()) {
      const std::size_t twice = 2 * lanes_.size();
      owned_array<tcp_lane_end*> larger(index < twice ? twice : std::size_t{index} + 1, "the lanes of a connection");
      for (std::size_t i = 0; i < lanes_.size(); ++i) larger[i] = lanes_[i];
      lanes_ = std::move(larger);
    }
    lanes_[index] = allocating(sizeof(tcp_lane_end), "a lane of a connection", [] { return new tcp_lane_end; });
    return *lanes_[index];
  }

  owned_array<tcp_lane_end*> lanes_;
};

/// The lanes of all communicators, by `tcp_lane_id`: those of the whole group are found at once.
class tcp_lane_table {
 public:
  /// A peer that is ahead may send for communicators that this rank is not in yet: for so many. Each has a limited
  /// number of lanes, so that a peer cannot make this rank keep as much as it likes.
  static constexpr std::size_t most_to_come = 16;

  tcp_lane_table() = default;
  tcp_lane_table(const tcp_lane_table&) = delete;
  tcp_lane_table& operator=(const tcp_lane_table&) = delete;
  ~tcp_lane_table() {
    for (const part& p : parts_) delete p.lanes;
  }

  /// Which communicators there are beside the whole group; else there are none.
  void know(const tcp_group_numbers& numbers) { numbers_ = &numbers; }

  /// Null if nothing is known of it.
  tcp_lane_end* find(std::uint64_t id) const {
    if (id < whole_.size()) [[likely]]
      return whole_[id];
    return tcp_lane_id::group(id) == 0 ? nullptr : find_in_part(id);
  }
  /// Of a communicator that this rank is in.
  tcp_lane_end& lane(std::uint64_t id) {
    if (id >= whole_.size() || whole_[id] == nullptr) [[unlikely]]
      return make(id);
    return *whole_[id];
  }
  /// That of something that has come: null if this rank has left the communicator, and if it cannot be meant, when
  /// `corrupt` becomes true.
  tcp_lane_end* lane_of_arrival(std::uint64_t id, bool& corrupt) {
    if (id >= whole_.size() || whole_[id] == nullptr) [[unlikely]]
      return make_for_arrival(id, corrupt);
    return whole_[id];
  }

  /// Takes out all lanes of one communicator, after `f(id, lane)` has been called for each.
  template <class F>
  void remove(std::uint32_t group, F&& f) noexcept {
    part* const p = place_of(group);
    if (p == parts_.end() || p->group != group) return;
    p->lanes->for_each([&](std::uint32_t index, tcp_lane_end& l) { f(tcp_lane_id::of(group, index), l); });
    take_out(p);
  }
  /// Communicators of which anything is known, beside the whole group.
  std::size_t parts() const { return parts_.size(); }

 private:
  struct part {
    std::uint32_t group;
    tcp_lane_set* lanes;
  };

  const part* place_of(std::uint32_t group) const {
    return std::lower_bound(parts_.begin(), parts_.end(), group,
                            [](const part& p, std::uint32_t number) { return p.group < number; });
  }
  part* place_of(std::uint32_t group) {
    return parts_.begin() + (std::as_const(*this).place_of(group) - parts_.begin());
  }
  tcp_lane_set* set_of(std::uint32_t group) const {
    const part* const p = place_of(group);
    return p != parts_.end() && p->group == group ? p->lanes : nullptr;
  }
  [[gnu::noinline]] tcp_lane_end* find_in_part(std::uint64_t id) const {
    const tcp_lane_set* const lanes = set_of(tcp_lane_id::group(id));
    return lanes == nullptr ? nullptr : lanes->find(tcp_lane_id::index(id));
  }
  [[gnu::noinline]] tcp_lane_end& make(std::uint64_t id) {
    const std::uint32_t group = tcp_lane_id::group(id);
    tcp_lane_set* lanes = group == 0 ? &whole_ : set_of(group);
    if (lanes == nullptr) lanes = add(group);
    return lanes->lane(tcp_lane_id::index(id));
  }
  [[gnu::noinline]] tcp_lane_end* make_for_arrival(std::uint64_t id, bool& corrupt) {
    const std::uint32_t group = tcp_lane_id::group(id);
    if (group != 0 && set_of(group) == nullptr) {
      using numbers = tcp_group_numbers;
      const auto is = numbers_ == nullptr ? numbers::standing::gone : numbers_->of(group);
      if (is == numbers::standing::gone) return nullptr;
      if (is == numbers::standing::to_come && !may_come()) {
        corrupt = true;
        return nullptr;
      }
    }
    return &make(id);
  }
  // One more that is to come. Some that were may never have been joined.
  bool may_come() noexcept {
    std::size_t to_come = 0;
    for (part* p = parts_.begin(); p != parts_.end();) {
      const auto is = numbers_->of(p->group);
      if (is == tcp_group_numbers::standing::gone) {
        take_out(p);
        continue;
      }
      to_come += is == tcp_group_numbers::standing::to_come;
      ++p;
    }
    return to_come < most_to_come;
  }
  [[gnu::noinline]] tcp_lane_set* add(std::uint32_t group) {
    auto* const made = allocating(sizeof(tcp_lane_set), "the lanes of a communicator", [] { return new tcp_lane_set; });
    try {
      parts_.insert(static_cast<std::size_t>(place_of(group) - parts_.begin()), {group, made});
    } catch (...) {
      delete made;
      throw;
    }
    return made;
  }
  void take_out(part* p) noexcept {
    delete p->lanes;
    parts_.erase(p);
  }

  tcp_lane_set whole_;
  array_list<part> parts_;  // ascending
  const tcp_group_numbers* numbers_ = nullptr;
};

}  // namespace tutti::detail
