// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tutti/core/call.hpp>
#include <tutti/core/owned_array.hpp>
#include <tutti/transport/recorded_calls.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::detail {

/// Who waits for one rank: in calls that it has not made, and for messages of it or to be received by it.
class mpi_looks {
 public:
  struct look {
    int from;
    std::uint64_t sequence;
    std::uint64_t fingerprint;
  };
  /// `end` is the other rank's.
  struct message_look {
    int from;
    recorded_call end;
  };

  bool any_for_calls() const noexcept { return !looks_.empty(); }
  void add(const look& l) { looks_.push_back(l); }
  /// The last of each rank counts.
  void add(message_look l) {
    std::erase_if(message_looks_, [&](const message_look& other) { return other.from == l.from; });
    message_looks_.push_back(std::move(l));
  }
  /// The rank makes that call: nobody waits for it any more; `differs(from)` for those who call something else.
  template <class Differs>
  void called(const call& c, Differs&& differs) {
    for (look* l = looks_.begin(); l != looks_.end();) {
      if (l->sequence > c.sequence) {
        ++l;
        continue;
      }
      const look waits = *l;
      looks_.erase(l);
      if (waits.sequence == c.sequence && waits.fingerprint != c.fingerprint()) differs(waits.from);
    }
  }
  /// The rank sends that message: who waits for it, as `is_for(end, c)` says, waits no more.
  template <class IsFor>
  void sent(const call& c, IsFor&& is_for) {
    for (std::size_t i = 0; i < message_looks_.size(); ++i) {
      if (message_looks_[i].from != c.to() || !is_for(message_looks_[i].end.read(), c)) continue;
      message_looks_.erase(message_looks_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  /// Nobody waits any more: `each(from)`.
  template <class Each>
  void clear(Each&& each) {
    for (const look& l : looks_) each(l.from);
    looks_.clear();
    for (const message_look& l : message_looks_) each(l.from);
    message_looks_.clear();
  }

 private:
  array_list<look> looks_;
  std::vector<message_look> message_looks_;
};

}  // namespace tutti::detail
