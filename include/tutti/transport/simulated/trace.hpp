// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/memory.hpp>
#include <tutti/transport/simulated/chance.hpp>
#include <tutti/transport/simulated/options.hpp>

#include <cstdint>
#include <vector>

namespace tutti::detail {

/// A hash of all events of a run, and the list of them if it is kept.
class trace {
 public:
  explicit trace(bool keep) : keep_(keep) {}

  void add(const simulated_event& e) {
    for (const std::uint64_t part : {static_cast<std::uint64_t>(e.kind), static_cast<std::uint64_t>(e.picoseconds),
                                     static_cast<std::uint64_t>(e.from), static_cast<std::uint64_t>(e.to),
                                     static_cast<std::uint64_t>(e.lane), e.message, e.bytes})
      hash_ = mix(hash_, part);
    if (keep_)
      allocating(bytes_for<simulated_event>(events_.size() + 1), "the events of the run",
                 [&] { return &events_.emplace_back(e); });
  }
  std::uint64_t hash() const { return hash_; }
  std::vector<simulated_event> events() const {
    return allocating(bytes_for<simulated_event>(events_.size()), "the events of the run", [&] { return events_; });
  }

 private:
  bool keep_;
  std::uint64_t hash_ = 0;
  std::vector<simulated_event> events_;
};

}  // namespace tutti::detail
