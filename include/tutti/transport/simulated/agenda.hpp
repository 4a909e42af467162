// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/owned_array.hpp>
#include <tutti/transport/simulated/chance.hpp>
#include <tutti/transport/simulated/message_queue.hpp>
#include <tutti/transport/simulated/virtual_time.hpp>

#include <algorithm>
#include <cstdint>

namespace tutti::detail {

/// What will happen to messages, in the order of time. Of events at the same time the seed says which comes first;
/// those of one pair of ranks keep their order.
class agenda {
 public:
  struct entry {
    virtual_time at;
    std::uint64_t draw;
    std::uint64_t number;
    simulated_message* what;
    bool arrives;  // its first byte; else its last is there

    friend bool operator<(const entry& a, const entry& b) {
      if (a.at != b.at) return a.at > b.at;
      if (a.draw != b.draw) return a.draw > b.draw;
      return a.number > b.number;
    }
  };

  explicit agenda(std::uint64_t seed) : chance_(chance(seed).of(1)) {}

  bool empty() const { return entries_.empty(); }
  virtual_time next() const { return entries_[0].at; }
  void put(virtual_time at, simulated_message* what, bool arrives) {
    const chance draw = chance_.of(static_cast<unsigned>(what->from)).of(static_cast<unsigned>(what->to));
    entries_.push_back({at, draw.bits(), ++count_, what, arrives});
    std::push_heap(entries_.begin(), entries_.end());
  }
  entry take() {
    std::pop_heap(entries_.begin(), entries_.end());
    const entry result = entries_.back();
    entries_.pop_back();
    return result;
  }

 private:
  chance chance_;
  std::uint64_t count_ = 0;
  array_list<entry> entries_;  // a heap
};

}  // namespace tutti::detail
